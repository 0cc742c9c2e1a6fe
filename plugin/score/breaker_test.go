package score

import (
	"testing"
	"time"

	clocktesting "k8s.io/utils/clock/testing"
)

func aBreaker() (*breaker, *clocktesting.FakePassiveClock) {
	clock := clocktesting.NewFakePassiveClock(time.Unix(0, 0))
	args := Args{Failures: 3}
	args.Backoff.Duration, args.MaxBackoff.Duration = 200*time.Millisecond, time.Second
	return newBreaker(args, clock), clock
}

func TestFailuresInARowOpenTheBreaker(t *testing.T) {
	b, _ := aBreaker()
	b.fails()
	b.fails()
	b.succeeded()
	for i := range 3 {
		if !b.allows() {
			t.Fatalf("open after %d failures", i)
		}
		if opened := b.fails(); opened != (i == 2) {
			t.Fatalf("failure %d: opened %v", i+1, opened)
		}
	}
	if b.allows() {
		t.Fatal("not open after three failures")
	}
}

func TestBackOffDoublesUpToItsLimit(t *testing.T) {
	b, clock := aBreaker()
	for range 3 {
		b.fails()
	}
	for _, pause := range []time.Duration{200, 400, 800, 1000, 1000} {
		clock.SetTime(clock.Now().Add(pause*time.Millisecond - 1))
		if b.allows() {
			t.Fatalf("a trial before %d ms", pause)
		}
		clock.SetTime(clock.Now().Add(1))
		if !b.allows() {
			t.Fatalf("no trial after %d ms", pause)
		}
		if b.fails() {
			t.Fatal("it was open already")
		}
	}
}

func TestOneGoodTrialClosesTheBreaker(t *testing.T) {
	b, clock := aBreaker()
	for range 5 {
		b.fails()
	}
	clock.SetTime(clock.Now().Add(time.Minute))
	if !b.succeeded() || b.succeeded() {
		t.Fatal("closing is told once")
	}
	b.fails()
	if !b.allows() {
		t.Fatal("one failure after it was closed opens it")
	}
}
