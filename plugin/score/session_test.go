package score

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"sync"
	"testing"
	"time"

	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework"
)

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
	if told.Name != "node-003" || told.Number != service.asked[2].numbers()[3] {
		t.Errorf("%v", told)
	}
	state := told.State
	if requested := state["requested"].(map[string]any); requested["cpuMilli"] != 1500.0 || requested["pods"] != 1.0 {
		t.Errorf("%v", state)
	}
}

// A pod that is assumed, confirmed and started moves the generation three times, and changes the state once.
func TestAStateThatIsTheSameIsNotSentAgain(t *testing.T) {
	service, _, args := onSocket(t)
	nodes := someNodes(3)
	plugin := aPlugin(t, args, nodes)
	assumed := podInfo(t, somePod("assumed"))
	nodes[1].AddPodInfo(assumed)
	preScored(t, plugin, nodes)
	for range 2 {
		if err := nodes[1].RemovePod(klog.Background(), assumed.GetPod()); err != nil {
			t.Fatal(err)
		}
		nodes[1].AddPodInfo(assumed)
		if _, why := preScored(t, plugin, nodes); why != "" {
			t.Fatal(why)
		}
	}
	service.restart()
	if _, why := preScored(t, plugin, nodes); why != "" {
		t.Fatal(why)
	}
	nodes[1].AddPodInfo(podInfo(t, somePod("another")))
	preScored(t, plugin, nodes)
	if got := service.states(); !slices.Equal(got, []int{3, 0, 0, 0, 3, 1}) {
		t.Errorf("%v", got)
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
	if numbers := service.asked[1].numbers(); !slices.Equal(numbers, []int{3, 2, 0}) {
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
	plugin.session.told = append(plugin.session.told, make([]told, mostNumbered-2)...)
	if _, why := preScored(t, plugin, nodes); why != "" {
		t.Fatal(why)
	}
	before, after := service.asked[0], service.asked[1]
	if after.Session == before.Session || !slices.Equal(after.numbers(), []int{0, 1, 2}) || len(after.Candidates.Told) != 3 {
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
