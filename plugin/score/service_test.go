package score

import (
	"encoding/binary"
	"encoding/json"
	"fmt"
	"hash/crc32"
	"net"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"slices"
	"sync"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework"
)

// asked is a request as the service reads it.
type asked struct {
	APIVersion string          `json:"apiVersion"`
	Session    string          `json:"session"`
	Policy     string          `json:"policy"`
	DeadlineMs int64           `json:"deadlineMs"`
	Pod        json.RawMessage `json:"pod"`
	Candidates struct {
		Numbers     []byte `json:"numbers"`
		Generations []byte `json:"generations"`
		Told        []struct {
			Number     int            `json:"number"`
			Name       string         `json:"name"`
			Generation int64          `json:"generation"`
			State      map[string]any `json:"state"`
		} `json:"told"`
	} `json:"candidates"`
}

// numbers of the candidates.
func (a asked) numbers() (found []int) {
	for part := range slices.Chunk(a.Candidates.Numbers, 4) {
		found = append(found, int(binary.LittleEndian.Uint32(part)))
	}
	return found
}

func (a asked) generation(i int) int64 {
	return int64(binary.LittleEndian.Uint64(a.Candidates.Generations[8*i:]))
}

func (a asked) uid() string {
	var pod v1.Pod
	if json.Unmarshal(a.Pod, &pod) != nil {
		return ""
	}
	return string(pod.UID)
}

// service keeps the contract, unless `answer` says otherwise.
type service struct {
	mutex  sync.Mutex
	known  map[int]int64
	asked  []asked
	answer func(http.ResponseWriter, asked) bool // true: this was the answer
}

func (s *service) set(answer func(http.ResponseWriter, asked) bool) {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	s.answer = answer
}

// restart forgets all nodes.
func (s *service) restart() {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	s.known = map[int]int64{}
}

// states that came with each request so far.
func (s *service) states() (counts []int) {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	for _, request := range s.asked {
		counts = append(counts, len(request.Candidates.Told))
	}
	return counts
}

func (s *service) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	var request asked
	if err := json.NewDecoder(r.Body).Decode(&request); err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	s.mutex.Lock()
	defer s.mutex.Unlock()
	s.asked = append(s.asked, request)
	if s.answer != nil && s.answer(w, request) {
		return
	}
	scores, unknown := []byte{}, []int{}
	for _, told := range request.Candidates.Told {
		s.known[told.Number] = told.Generation
	}
	for i, number := range request.numbers() {
		if generation, has := s.known[number]; !has || generation != request.generation(i) {
			unknown = append(unknown, number)
		}
		scores = append(scores, byte(max(0, 100-i)))
	}
	if len(unknown) > 0 {
		w.WriteHeader(http.StatusConflict)
		_ = json.NewEncoder(w).Encode(map[string]any{"reason": "unknown-generation", "message": "", "unknown": unknown})
		return
	}
	_ = json.NewEncoder(w).Encode(map[string]any{
		"apiVersion": "v1", "uid": request.uid(), "policy": "fgd@1", "scores": scores,
		"asked": crc32.ChecksumIEEE(request.Candidates.Numbers),
	})
}

func onSocket(t *testing.T) (*service, *httptest.Server, Args) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "s")
	listener, err := net.Listen("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	one := &service{known: map[int]int64{}}
	server := &httptest.Server{Listener: listener, Config: &http.Server{Handler: one}}
	server.Start()
	t.Cleanup(server.Close)
	return one, server, argsFrom(t, fmt.Sprintf(`{"socket": %q, "deadline": "2s"}`, path))
}

func argsFrom(t *testing.T, text string) Args {
	t.Helper()
	args, err := readArgs(&runtime.Unknown{Raw: []byte(text), ContentType: runtime.ContentTypeJSON})
	if err != nil {
		t.Fatal(err)
	}
	return args
}

// handle is what the plugin needs of kube-scheduler's.
type handle struct {
	fwk.Handle
	nodes []fwk.NodeInfo
}

func (h *handle) ProfileName() string                    { return "tests" }
func (h *handle) SnapshotSharedLister() fwk.SharedLister { return &lister{nodes: h.nodes} }

type lister struct {
	fwk.SharedLister
	fwk.NodeInfoLister
	nodes []fwk.NodeInfo
}

func (l *lister) NodeInfos() fwk.NodeInfoLister { return l }
func (l *lister) Get(name string) (fwk.NodeInfo, error) {
	for _, info := range l.nodes {
		if info.Node().Name == name {
			return info, nil
		}
	}
	return nil, fmt.Errorf("no node %q", name)
}

func someNodes(count int) []fwk.NodeInfo {
	nodes := make([]fwk.NodeInfo, count)
	for i := range nodes {
		info := framework.NewNodeInfo()
		info.SetNode(&v1.Node{
			ObjectMeta: metav1.ObjectMeta{
				Name:   fmt.Sprintf("node-%03d", i),
				Labels: map[string]string{v1.LabelTopologyZone: "z1", "secret": "stays"},
			},
			Status: v1.NodeStatus{
				Allocatable: v1.ResourceList{
					"cpu": resource.MustParse("64"), "memory": resource.MustParse("256Gi"), "pods": resource.MustParse("110"),
					"nvidia.com/gpu": resource.MustParse("8"),
				},
				Addresses: []v1.NodeAddress{{Type: v1.NodeInternalIP, Address: "10.0.0.2"}},
			},
		})
		nodes[i] = info
	}
	return nodes
}

func somePod(name string) *v1.Pod {
	return &v1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Name: name, Namespace: "team", UID: types.UID("uid-" + name),
			Annotations: map[string]string{v1.LastAppliedConfigAnnotation: "password", "pilotage/duration": "5"},
		},
		Spec: v1.PodSpec{Containers: []v1.Container{{
			Name: "main", Image: "private", Command: []string{"--password=secret"},
			Env: []v1.EnvVar{{Name: "TOKEN", Value: "secret"}},
			Resources: v1.ResourceRequirements{Requests: v1.ResourceList{
				"cpu": resource.MustParse("1500m"), "nvidia.com/gpu": resource.MustParse("1"),
			}},
		}}},
	}
}

const soon = 20 * time.Millisecond
