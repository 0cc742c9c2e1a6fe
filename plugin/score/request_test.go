package score

import (
	"encoding/json"
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
	state := map[string]any{}
	if err := json.Unmarshal(appendState(nil, info), &state); err != nil {
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
		appendRequest(nil, head{"session", "", encoded}, candidates, candidates[:1], 100)
	}
}
