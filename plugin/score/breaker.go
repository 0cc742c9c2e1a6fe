package score

import (
	"time"

	"k8s.io/utils/clock"
)

// breaker leaves a service alone that fails again and again: each failure may cost a pod its whole deadline.
//
//	closed --failures in a row--> open --back-off is over--> one trial --success--> closed
//	                               ^                             |
//	                               +---- twice the back-off -----+ failure
//
// It is used by one caller at a time.
type breaker struct {
	clock    clock.PassiveClock
	failures int // in a row that open it
	first    time.Duration
	longest  time.Duration

	failed   int
	pause    time.Duration // of the next opening
	closedAt time.Time     // when the next trial may be made
	isOpen   bool
}

func newBreaker(args Args, clock clock.PassiveClock) *breaker {
	return &breaker{
		clock: clock, failures: args.Failures,
		first: args.Backoff.Duration, longest: args.MaxBackoff.Duration, pause: args.Backoff.Duration,
	}
}

// allows says whether the service may be asked now.
func (b *breaker) allows() bool {
	return !b.isOpen || !b.clock.Now().Before(b.closedAt)
}

// succeeded returns whether this closed it.
func (b *breaker) succeeded() bool {
	closed := b.isOpen
	b.isOpen, b.failed, b.pause = false, 0, b.first
	return closed
}

// fails returns whether this opened it, for the first time since it was closed.
func (b *breaker) fails() bool {
	b.failed++
	if !b.isOpen && b.failed < b.failures {
		return false
	}
	opened := !b.isOpen
	b.isOpen = true
	b.closedAt = b.clock.Now().Add(b.pause)
	b.pause = min(2*b.pause, b.longest)
	return opened
}
