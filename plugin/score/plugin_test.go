package score

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
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
