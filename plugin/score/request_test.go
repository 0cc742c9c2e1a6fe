package score

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework"
)

func encodedState(t *testing.T, info fwk.NodeInfo) map[string]any {
	t.Helper()
	return stateIn(t, resourceNames{}, info)
}

func stateIn(t *testing.T, known resourceNames, info fwk.NodeInfo) map[string]any {
	t.Helper()
	state := map[string]any{}
	if err := json.Unmarshal(appendState(nil, info, known), &state); err != nil {
		t.Fatal(err)
	}
	return state
}

func TestAStateIsWhatTheSnapshotSays(t *testing.T) {
	info := someNodes(1)[0]
	pod := somePod("a")
	info.AddPodInfo(podInfo(t, pod))
	state := encodedState(t, info)
	want := `{"address":"10.0.0.2",` +
		`"allocatable":{"cpuMilli":64000,"ephemeralStorageBytes":0,"extended":{"nvidia.com/gpu":8},"memoryBytes":274877906944,"pods":110},` +
		`"labels":{"topology.kubernetes.io/zone":"z1"},` +
		`"requested":{"cpuMilli":1500,"ephemeralStorageBytes":0,"extended":{"nvidia.com/gpu":1},"memoryBytes":0,"pods":1},` +
		`"scored":{"cpuMilli":1500,"memoryBytes":209715200}}`
	if got, _ := json.Marshal(state); string(got) != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
}

func TestPodsThatShareDevicesAreListed(t *testing.T) {
	info := someNodes(1)[0]
	for _, annotations := range []map[string]string{
		{gpuMilli: "500", gpuIndex: "3"}, {gpuCount: "2", gpuIndex: "0-1"}, {}, {gpuMilli: "0.3k"},
		{gpuMilli: "half\""}, {gpuMilli: "2000"}, {gpuMilli: "0"}, {gpuCount: "100"}, {gpuCount: "-1"}, {gpuCount: "9e99"},
		{gpuMilli: "200", gpuIndex: strings.Repeat("0-", 200)},
	} {
		pod := somePod("a")
		pod.Annotations = annotations
		info.AddPodInfo(podInfo(t, pod))
	}
	got, _ := json.Marshal(encodedState(t, info)["gpuPods"])
	want := `[{"count":1,"index":"3","milli":500},{"count":2,"index":"0-1","milli":1000},` +
		`{"count":1,"index":"","milli":300},{"count":1,"index":"","milli":200}]`
	if string(got) != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
}

// A pod with 257 resources of its own invention had every request about its node refused.
func TestResourcesThatTheNodeHasNotAreNotWritten(t *testing.T) {
	info, pod := someNodes(1)[0], somePod("a")
	for i := range 257 {
		pod.Spec.Containers[0].Resources.Requests[v1.ResourceName(fmt.Sprintf("invented.example/%d", i))] = resource.MustParse("1")
	}
	info.AddPodInfo(podInfo(t, pod))
	got, _ := json.Marshal(extendedIn(encodedState(t, info), "requested"))
	if string(got) != `{"nvidia.com/gpu":1}` {
		t.Errorf("%s", got)
	}
}

func TestNoMoreResourcesAreWrittenThanASessionKeeps(t *testing.T) {
	known, nodes, written := resourceNames{}, someNodes(3), map[string]bool{}
	for n, name := range []string{"a.example/%03d", "b.example/%03d"} {
		node := nodes[n].Node().DeepCopy()
		for i := range 200 {
			node.Status.Allocatable[v1.ResourceName(fmt.Sprintf(name, i))] = resource.MustParse("1")
		}
		nodes[n].(*framework.NodeInfo).SetNode(node)
	}
	for range 2 { // a node that is told of again has what it had
		for i, want := range []int{201, 55, 1} {
			offered := extendedIn(stateIn(t, known, nodes[i]), "allocatable")
			for name := range offered {
				written[name] = true
			}
			if len(offered) != want || offered["nvidia.com/gpu"] != 8.0 {
				t.Errorf("node %d: %d, %v", i, len(offered), offered["nvidia.com/gpu"])
			}
		}
	}
	if len(written) != mostNames {
		t.Errorf("%d", len(written))
	}
}

func TestNoMoreSharesAreWrittenThanTheServiceTakes(t *testing.T) {
	pod := somePod("a")
	pod.Annotations = map[string]string{gpuMilli: "1"}
	var listed []map[string]any
	text := appendGPUPods(nil, slices.Repeat([]fwk.PodInfo{podInfo(t, pod)}, mostGPUPods+1))
	if err := json.Unmarshal(bytes.TrimPrefix(text, []byte(`,"gpuPods":`)), &listed); err != nil || len(listed) != mostGPUPods {
		t.Errorf("%d, %v", len(listed), err)
	}
}

func extendedIn(state map[string]any, of string) map[string]any {
	found, _ := state[of].(map[string]any)["extended"].(map[string]any)
	return found
}

func TestWhatIsNobodysBusinessStaysHere(t *testing.T) {
	pod := somePod("a")
	always := v1.ContainerRestartPolicyAlways
	pod.Spec.InitContainers = []v1.Container{{Name: "side", RestartPolicy: &always, Args: []string{"secret"}}}
	pod.Spec.Overhead = v1.ResourceList{"cpu": resource.MustParse("100m")}
	encoded, err := encodedPod(pod)
	if err != nil {
		t.Fatal(err)
	}
	for _, hidden := range []string{"secret", "password", "private", "TOKEN"} {
		if strings.Contains(string(encoded), hidden) {
			t.Errorf("%s in %s", hidden, encoded)
		}
	}
	var read v1.Pod
	if err := json.Unmarshal(encoded, &read); err != nil {
		t.Fatal(err)
	}
	if read.UID != pod.UID || read.Annotations["pilotage/duration"] != "5" || *read.Spec.InitContainers[0].RestartPolicy != always ||
		read.Spec.Containers[0].Resources.Requests.Cpu().MilliValue() != 1500 || read.Spec.Overhead.Cpu().MilliValue() != 100 {
		t.Errorf("%s", encoded)
	}
}

func TestTextIsQuotedAsJSON(t *testing.T) {
	for _, text := range []string{"", "node-1", `a"b`, `a\b`, "a\nb", "ä", "<&>", "\xff"} {
		var read, want string
		if err := json.Unmarshal(appendString(nil, text), &read); err != nil {
			t.Errorf("%q: %v", text, err)
		}
		if want = strings.ToValidUTF8(text, "\ufffd"); read != want {
			t.Errorf("%q became %q", text, read)
		}
	}
}

func podInfo(t *testing.T, pod *v1.Pod) fwk.PodInfo {
	t.Helper()
	info, err := framework.NewPodInfo(pod)
	if err != nil {
		t.Fatal(err)
	}
	return info
}

func BenchmarkRequest(b *testing.B) {
	nodes := someNodes(1000)
	pod := somePod("a")
	pod.ManagedFields = []metav1.ManagedFieldsEntry{}
	session := newSession(nil, "", nil)
	for b.Loop() {
		encoded, _ := encodedPod(pod)
		candidates := session.numbered(nodes)
		news := session.news(candidates)
		appendRequest(nil, head{"session", "", encoded}, columnsOf(candidates), news[:1], 100)
	}
}
