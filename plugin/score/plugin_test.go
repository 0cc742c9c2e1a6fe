package score

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"k8s.io/component-base/metrics/testutil"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework"
	"k8s.io/utils/clock"
)

func aPlugin(t *testing.T, args Args, nodes []fwk.NodeInfo) *Plugin {
	t.Helper()
	plugin, err := newPlugin(args, &handle{nodes: nodes}, clock.RealClock{})
	if err != nil {
		t.Fatal(err)
	}
	return plugin
}

func counted(t *testing.T, why reason) float64 {
	t.Helper()
	value, err := testutil.GetCounterMetricValue(fallbacks.WithLabelValues("tests", string(why)))
	if err != nil {
		t.Fatal(err)
	}
	return value
}

// preScored asks about a pod and returns why the other plugins would decide it, or "".
func preScored(t *testing.T, plugin *Plugin, nodes []fwk.NodeInfo) (fwk.CycleState, reason) {
	t.Helper()
	before := map[reason]float64{}
	for _, why := range reasons {
		before[why] = counted(t, why)
	}
	state := framework.NewCycleState()
	status := plugin.PreScore(context.Background(), state, somePod("a"), nodes)
	found := []reason{}
	for _, why := range reasons {
		if counted(t, why) > before[why] {
			found = append(found, why)
		}
	}
	switch {
	case status.IsSuccess() && len(found) == 0:
		return state, ""
	case status.IsSkip() && len(found) == 1:
		return state, found[0]
	}
	t.Fatalf("%v, counted %v", status, found)
	return nil, ""
}

func TestCandidatesGetTheirScores(t *testing.T) {
	_, _, args := onSocket(t)
	nodes := someNodes(5)
	plugin := aPlugin(t, args, nodes)
	state, why := preScored(t, plugin, nodes)
	if why != "" {
		t.Fatal(why)
	}
	for i, info := range nodes {
		score, status := plugin.Score(context.Background(), state, somePod("a"), info)
		if !status.IsSuccess() || score != int64(100-i) {
			t.Errorf("%s: %d, %v", info.Node().Name, score, status)
		}
	}
}

func TestScoreAloneIsEnough(t *testing.T) {
	service, _, args := onSocket(t)
	nodes := someNodes(5)
	plugin := aPlugin(t, args, nodes)
	list := func() fwk.NodeScoreList {
		found := fwk.NodeScoreList{}
		state := framework.NewCycleState()
		for _, info := range nodes[1:4] { // those that passed the filters
			score, status := plugin.Score(context.Background(), state, somePod("a"), info)
			if !status.IsSuccess() {
				t.Fatal(status)
			}
			found = append(found, fwk.NodeScore{Name: info.Node().Name, Score: score})
		}
		if status := plugin.NormalizeScore(context.Background(), state, somePod("a"), found); !status.IsSuccess() {
			t.Fatal(status)
		}
		return found
	}
	if found := list(); found[0].Score != 100 || found[2].Score != 98 {
		t.Errorf("%v", found)
	}
	if told := service.asked[0].Candidates.Told; len(told) != 3 || told[0].Name != "node-001" {
		t.Errorf("%v", told)
	}
	service.set(garbage)
	if found := list(); found[0].Score != 0 || found[2].Score != 0 {
		t.Errorf("without an answer: %v", found)
	}
}

func TestOnlyWhatChangedIsSentAgain(t *testing.T) {
	service, _, args := onSocket(t)
	nodes := someNodes(20)
	plugin := aPlugin(t, args, nodes)
	preScored(t, plugin, nodes[:10])
	preScored(t, plugin, nodes[:10])
	nodes[3].AddPodInfo(podInfo(t, somePod("assumed"))) // generation moves
	preScored(t, plugin, nodes)
	if got := service.states(); !slices.Equal(got, []int{10, 0, 11}) {
		t.Errorf("%v", got)
	}
	told := service.asked[2].Candidates.Told[0]
	if told.Name != "node-003" || told.Number != service.asked[2].Candidates.Numbers[3] {
		t.Errorf("%v", told)
	}
	state := told.State
	if requested := state["requested"].(map[string]any); requested["cpuMilli"] != 1500.0 || requested["pods"] != 1.0 {
		t.Errorf("%v", state)
	}
}

func TestAServiceThatForgotIsToldAgain(t *testing.T) {
	service, _, args := onSocket(t)
	nodes := someNodes(10)
	plugin := aPlugin(t, args, nodes)
	preScored(t, plugin, nodes)
	service.restart()
	if _, why := preScored(t, plugin, nodes); why != "" {
		t.Fatal(why)
	}
	if got := service.states(); !slices.Equal(got, []int{10, 0, 10}) {
		t.Errorf("%v", got)
	}
}

// Numbers are those of the session, whatever the order in which nodes come; scores are theirs.
func TestScoresBelongToTheirNodesInAnyOrder(t *testing.T) {
	service, _, args := onSocket(t)
	nodes := someNodes(6)
	plugin := aPlugin(t, args, nodes)
	first, _ := preScored(t, plugin, nodes[:3])
	turned := []fwk.NodeInfo{nodes[5], nodes[2], nodes[0]}
	second, why := preScored(t, plugin, turned)
	if why != "" {
		t.Fatal(why)
	}
	if numbers := service.asked[1].Candidates.Numbers; !slices.Equal(numbers, []int{3, 2, 0}) {
		t.Errorf("%v", numbers)
	}
	for i, info := range turned {
		if score, _ := plugin.Score(context.Background(), second, somePod("a"), info); score != int64(100-i) {
			t.Errorf("%s: %d", info.Node().Name, score)
		}
	}
	if score, _ := plugin.Score(context.Background(), first, somePod("a"), nodes[2]); score != 98 {
		t.Errorf("of the pod before: %d", score)
	}
	if score, _ := plugin.Score(context.Background(), first, somePod("a"), nodes[5]); score != 0 {
		t.Errorf("of no candidate: %d", score)
	}
}

// kube-scheduler may run several cycles of one profile: each pod has the scores of its own candidates.
func TestPodsThatAskAtOnceGetTheirOwnScores(t *testing.T) {
	_, _, args := onSocket(t)
	nodes := someNodes(40)
	plugin := aPlugin(t, args, nodes)
	plugin.deadline = time.Minute // they wait for each other
	var asking sync.WaitGroup
	for first := range 8 {
		asking.Go(func() {
			for round := range 30 {
				state, pod := framework.NewCycleState(), somePod(fmt.Sprintf("%d-%d", first, round))
				own := nodes[first : first+2+round]
				if status := plugin.PreScore(context.Background(), state, pod, own); !status.IsSuccess() {
					t.Errorf("%s: %v", pod.Name, status)
					return
				}
				for i, info := range own {
					if score, _ := plugin.Score(context.Background(), state, pod, info); score != int64(100-i) {
						t.Errorf("%s on %s: %d, want %d", pod.Name, info.Node().Name, score, 100-i)
					}
				}
			}
		})
	}
	asking.Wait()
}

func TestASessionWithMoreNodesThanAServiceKeepsBeginsAnew(t *testing.T) {
	service, _, args := onSocket(t)
	nodes := someNodes(3)
	plugin := aPlugin(t, args, nodes)
	preScored(t, plugin, nodes[:2])
	plugin.session.told = append(plugin.session.told, make([]int64, mostNumbered-2)...)
	if _, why := preScored(t, plugin, nodes); why != "" {
		t.Fatal(why)
	}
	before, after := service.asked[0], service.asked[1]
	if after.Session == before.Session || !slices.Equal(after.Candidates.Numbers, []int{0, 1, 2}) || len(after.Candidates.Told) != 3 {
		t.Errorf("%v, then %v", before, after)
	}
}

func TestALargeClusterIsToldInParts(t *testing.T) {
	service, _, args := onSocket(t)
	nodes := someNodes(2*mostStates + 10)
	plugin := aPlugin(t, args, nodes)
	if _, why := preScored(t, plugin, nodes); why != "" {
		t.Fatal(why)
	}
	if got := service.states(); !slices.Equal(got, []int{mostStates, mostStates, 10}) {
		t.Errorf("%v", got)
	}
}

// A service that needed longer than the deadline for 500 states was sent the same 500 for every pod.
func TestAServiceThatTakesLongIsToldSmallerParts(t *testing.T) {
	for name, answer := range map[string]func(http.ResponseWriter, asked) bool{
		"it says so": says(http.StatusRequestTimeout, `{"reason":"deadline"}`),
		"it says nothing": func(http.ResponseWriter, asked) bool {
			time.Sleep(30 * soon)
			return true
		},
	} {
		t.Run(name, func(t *testing.T) {
			service, _, args := onSocket(t)
			args.Failures = 10
			nodes := someNodes(mostStates)
			plugin := aPlugin(t, args, nodes)
			service.set(func(w http.ResponseWriter, request asked) bool {
				return len(request.Candidates.Told) > 100 && answer(w, request)
			})
			for _, want := range []reason{late, late, late, ""} {
				plugin.deadline = time.Minute
				if want == late && name == "it says nothing" {
					plugin.deadline = 25 * soon // enough for the service to read it
				}
				if _, why := preScored(t, plugin, nodes); why != want {
					t.Fatalf("%s, want %s", why, want)
				}
			}
			if got := service.states(); !slices.Equal(got, []int{500, 250, 125, 62, 62, 62, 62, 62, 62, 62, 62, 4}) {
				t.Errorf("%v", got)
			}
			if plugin.session.atOnce != mostStates {
				t.Errorf("afterwards: %d", plugin.session.atOnce)
			}
		})
	}
}

func TestPartsDoNotBecomeSmallerThanUseful(t *testing.T) {
	service, _, args := onSocket(t)
	args.Failures = 10
	nodes := someNodes(90)
	plugin := aPlugin(t, args, nodes)
	service.set(says(http.StatusRequestTimeout, `{"reason":"deadline"}`))
	for range 3 {
		preScored(t, plugin, nodes)
	}
	if got := service.states(); !slices.Equal(got, []int{90, fewestStates, fewestStates}) {
		t.Errorf("%v", got)
	}
}

func garbage(w http.ResponseWriter, _ asked) bool {
	fmt.Fprint(w, "<html>")
	return true
}

func says(status int, body string) func(http.ResponseWriter, asked) bool {
	return func(w http.ResponseWriter, _ asked) bool {
		w.WriteHeader(status)
		fmt.Fprint(w, body)
		return true
	}
}

func TestEveryFaultIsAFallbackWithItsReason(t *testing.T) {
	reason409 := `{"reason":"unknown-generation","message":"","unknown":[0]}`
	for name, fault := range map[string]struct {
		answer func(http.ResponseWriter, asked) bool
		why    reason
	}{
		"garbage":         {garbage, malformed},
		"endless":         {endless, tooLarge},
		"huge header":     {hugeHeader, unreachable},
		"cut off":         {cutOff, unreachable},
		"late":            {tooLate, late},
		"redirect":        {redirect, failing},
		"no content":      {says(204, ""), failing},
		"wrong request":   {says(400, `{"reason":"invalid","message":"pod"}`), refused},
		"unauthenticated": {says(401, `{"reason":"unauthenticated"}`), failing},
		"deadline":        {says(408, `{"reason":"deadline"}`), late},
		"forgets again":   {says(409, reason409), failing},
		"forgets nothing": {says(409, `{"reason":"unknown-generation","unknown":[]}`), failing},
		"bad gateway":     {says(502, "nginx"), failing},
		"not ready":       {says(503, `{"reason":"not-ready"}`), failing},
	} {
		t.Run(name, func(t *testing.T) {
			service, _, args := onSocket(t)
			args.Deadline.Duration = time.Second
			if fault.why == late {
				args.Deadline.Duration = soon
			}
			nodes := someNodes(3)
			plugin := aPlugin(t, args, nodes)
			service.set(fault.answer)
			if _, why := preScored(t, plugin, nodes); why != fault.why {
				t.Errorf("%s, want %s", why, fault.why)
			}
			service.set(nil)
			args.Deadline.Duration = time.Minute
			plugin.deadline = time.Minute
			if _, why := preScored(t, plugin, nodes); why != "" {
				t.Errorf("afterwards: %s", why)
			}
		})
	}
}

func endless(w http.ResponseWriter, _ asked) bool {
	block := []byte(strings.Repeat(" ", 1<<16))
	for range 1 << 10 { // 64 MB, if somebody reads them
		if _, err := w.Write(block); err != nil {
			break
		}
	}
	return true
}

func hugeHeader(w http.ResponseWriter, _ asked) bool {
	w.Header().Set("X", strings.Repeat("x", 2*maxHeaderBytes))
	return true
}

func cutOff(w http.ResponseWriter, _ asked) bool {
	w.Header().Set("Content-Length", "1000")
	fmt.Fprint(w, "{")
	return true
}

func tooLate(http.ResponseWriter, asked) bool {
	time.Sleep(10 * soon)
	return true
}

func redirect(w http.ResponseWriter, _ asked) bool {
	w.Header().Set("Location", "http://127.0.0.1:1/")
	w.WriteHeader(http.StatusFound)
	return true
}

func TestNobodyThereIsAFallbackAndThenNotAsked(t *testing.T) {
	nodes := someNodes(2)
	socket := filepath.Join(t.TempDir(), "nobody")
	plugin := aPlugin(t, argsFrom(t, fmt.Sprintf(`{"socket": %q, "deadline": "5s", "failures": 2, "backoff": "1m", "maxBackoff": "1m"}`, socket)), nodes)
	for _, want := range []reason{unreachable, unreachable, circuitIsOpen} {
		if _, why := preScored(t, plugin, nodes); why != want {
			t.Errorf("%s, want %s", why, want)
		}
	}
	open, err := testutil.GetGaugeMetricValue(circuitOpen.WithLabelValues("tests"))
	if err != nil || open != 1 {
		t.Errorf("circuit_open is %v, %v", open, err)
	}
}

func TestRefusedRequestsDoNotOpenTheCircuit(t *testing.T) {
	service, _, args := onSocket(t)
	nodes := someNodes(2)
	plugin := aPlugin(t, args, nodes)
	service.set(says(400, `{"reason":"invalid","message":"pod"}`))
	for range 5 {
		if _, why := preScored(t, plugin, nodes); why != refused {
			t.Fatal(why)
		}
	}
}

func TestAPanicIsAFallback(t *testing.T) {
	_, _, args := onSocket(t)
	plugin := aPlugin(t, args, nil)
	if _, why := preScored(t, plugin, []fwk.NodeInfo{framework.NewNodeInfo()}); why != panicked { // it has no node
		t.Error(why)
	}
	if _, why := preScored(t, plugin, someNodes(2)); why != "" {
		t.Errorf("afterwards: %s", why)
	}
}

func TestPodsThatKubeSchedulerGivesUpDoNotBlameTheService(t *testing.T) {
	_, _, args := onSocket(t)
	nodes := someNodes(2)
	plugin := aPlugin(t, args, nodes)
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	before := counted(t, stopped)
	for range 5 {
		if status := plugin.PreScore(ctx, framework.NewCycleState(), somePod("a"), nodes); !status.IsSkip() {
			t.Fatal(status)
		}
	}
	if counted(t, stopped) != before+5 || !plugin.breaker.allows() {
		t.Error("not counted as such")
	}
}

func TestAConnectionThatWasClosedIsNoFault(t *testing.T) {
	_, server, args := onSocket(t)
	nodes := someNodes(2)
	plugin := aPlugin(t, args, nodes)
	for range 5 {
		if _, why := preScored(t, plugin, nodes); why != "" {
			t.Fatal(why)
		}
		server.CloseClientConnections()
	}
}

func TestACertificateOfAnotherAuthorityIsRefused(t *testing.T) {
	one := &service{known: map[int]int64{}}
	server := httptest.NewTLSServer(one)
	server.Config.ErrorLog = nil
	defer server.Close()
	nodes := someNodes(2)
	for name, want := range map[string]reason{server.URL: untrusted, "https" + strings.TrimPrefix(plain(t), "http"): untrusted} {
		plugin := aPlugin(t, argsFrom(t, fmt.Sprintf(`{"url": %q, "deadline": "2s"}`, name)), nodes)
		if _, why := preScored(t, plugin, nodes); why != want {
			t.Errorf("%s, want %s", why, want)
		}
	}
	if len(one.asked) != 0 {
		t.Error("a pod was told to a stranger")
	}
}

func plain(t *testing.T) string {
	t.Helper()
	server := httptest.NewServer(&service{known: map[int]int64{}})
	t.Cleanup(server.Close)
	return server.URL
}

func TestATokenIsSent(t *testing.T) {
	found := make(chan string, 1)
	one := &service{known: map[int]int64{}}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		found <- r.Header.Get("Authorization")
		one.ServeHTTP(w, r)
	}))
	defer server.Close()
	file := filepath.Join(t.TempDir(), "token")
	if err := os.WriteFile(file, []byte("a-token\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	nodes := someNodes(2)
	plugin := aPlugin(t, argsFrom(t, fmt.Sprintf(`{"url": %q, "tokenFile": %q, "deadline": "2s"}`, server.URL, file)), nodes)
	if _, why := preScored(t, plugin, nodes); why != "" {
		t.Fatal(why)
	}
	if got := <-found; got != "Bearer a-token" {
		t.Error(got)
	}
}
