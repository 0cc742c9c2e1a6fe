package score

import (
	"bytes"
	"encoding/base64"
	"encoding/binary"
	"encoding/json"
	"maps"
	"slices"
	"strconv"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	fwk "k8s.io/kube-scheduler/framework"
)

const (
	apiVersion = "v1"

	gpuMilli = "alibabacloud.com/gpu-milli"
	gpuCount = "alibabacloud.com/gpu-count"
	gpuIndex = "alibabacloud.com/gpu-index"

	wholeGPU    = 1000
	mostDevices = 62
	mostIndex   = 256     // characters; what is longer names no devices
	mostAddress = 64      // characters
	mostAmount  = 1 << 56 // that the service takes
	mostGPUPods = 10_000  // of one node that the service takes
	mostNames   = 255     // of resources that the service keeps for a session, beside ephemeral storage

	// Bytes that are mostly enough, so that a request is written into one piece of memory.
	requestRoom, columnsRoom, stateRoom = 512, 18, 512
)

// Labels of nodes that policies look at; the others stay here.
var nodeLabels = []string{
	"alibabacloud.com/gpu-card-model",
	"nvidia.com/gpu.product",
	"amd.com/gpu.product-name",
	v1.LabelTopologyZone,
	"topology.kubernetes.io/rack",
}

// encodedPod is what a score can depend on. Commands, environment and volumes of a pod are nobody else's business, and
// an applied configuration is a second copy of them.
func encodedPod(pod *v1.Pod) ([]byte, error) {
	type container struct {
		Name          string                     `json:"name"`
		Resources     v1.ResourceRequirements    `json:"resources"`
		RestartPolicy *v1.ContainerRestartPolicy `json:"restartPolicy,omitempty"`
	}
	type metadata struct {
		UID         string            `json:"uid"`
		Name        string            `json:"name"`
		Namespace   string            `json:"namespace"`
		Labels      map[string]string `json:"labels,omitempty"`
		Annotations map[string]string `json:"annotations,omitempty"`
	}
	type spec struct {
		Containers     []container              `json:"containers"`
		InitContainers []container              `json:"initContainers,omitempty"`
		Resources      *v1.ResourceRequirements `json:"resources,omitempty"`
		Overhead       v1.ResourceList          `json:"overhead,omitempty"`
		Priority       *int32                   `json:"priority,omitempty"`
		SchedulerName  string                   `json:"schedulerName,omitempty"`
	}
	reduced := func(given []v1.Container) []container {
		kept := make([]container, len(given))
		for i := range given {
			kept[i] = container{given[i].Name, given[i].Resources, given[i].RestartPolicy}
		}
		return kept
	}
	return json.Marshal(struct {
		Metadata metadata `json:"metadata"`
		Spec     spec     `json:"spec"`
	}{
		metadata{string(pod.UID), pod.Name, pod.Namespace, pod.Labels, shownAnnotations(pod.Annotations)},
		spec{
			reduced(pod.Spec.Containers), reduced(pod.Spec.InitContainers), pod.Spec.Resources, pod.Spec.Overhead,
			pod.Spec.Priority, pod.Spec.SchedulerName,
		},
	})
}

func shownAnnotations(given map[string]string) map[string]string {
	if _, has := given[v1.LastAppliedConfigAnnotation]; !has {
		return given
	}
	kept := make(map[string]string, len(given)-1)
	for key, value := range given {
		if key != v1.LastAppliedConfigAnnotation {
			kept[key] = value
		}
	}
	return kept
}

// resourceNames are the extended resources that the service is told of in a session. It refuses a request with more than
// it keeps, whichever node they stand on, so what is beyond is left out: it could change no other node's score.
type resourceNames map[v1.ResourceName]struct{}

// of are those that a node offers, in the order of their names.
func (known resourceNames) of(offered map[v1.ResourceName]int64) (names []v1.ResourceName) {
	for _, name := range slices.Sorted(maps.Keys(offered)) {
		if _, has := known[name]; offered[name] == 0 || !has && len(known) >= mostNames {
			continue
		}
		known[name] = struct{}{}
		names = append(names, name)
	}
	return names
}

// head is what is the same in all requests about one pod.
type head struct {
	session, policy string
	pod             []byte
}

// columns are candidates as they travel: numbers of 32 bits and generations of 64, the lowest byte first.
type columns struct{ numbers, generations []byte }

func columnsOf(candidates []candidate) columns {
	made := columns{make([]byte, 0, 4*len(candidates)), make([]byte, 0, 8*len(candidates))}
	for _, one := range candidates {
		made.numbers = binary.LittleEndian.AppendUint32(made.numbers, uint32(one.number))
		made.generations = binary.LittleEndian.AppendUint64(made.generations, uint64(one.generation))
	}
	return made
}

// appendRequest writes a request: candidates as columns, and what is news of them. It is written by hand because it is
// long and the same for a thousand nodes.
func appendRequest(to []byte, head head, candidates columns, news []candidate, millis int64) []byte {
	to = slices.Grow(to, requestRoom+len(head.pod)+columnsRoom*len(candidates.numbers)/4+stateRoom*len(news))
	to = append(to, `{"apiVersion":"`+apiVersion+`","session":`...)
	to = appendString(to, head.session)
	if head.policy != "" {
		to = append(to, `,"policy":`...)
		to = appendString(to, head.policy)
	}
	to = append(to, `,"deadlineMs":`...)
	to = strconv.AppendInt(to, millis, 10)
	to = append(to, `,"pod":`...)
	to = append(to, head.pod...)
	to = append(to, `,"candidates":{"numbers":"`...)
	to = base64.StdEncoding.AppendEncode(to, candidates.numbers)
	to = append(to, `","generations":"`...)
	to = base64.StdEncoding.AppendEncode(to, candidates.generations)
	to = append(to, `","told":[`...)
	for _, one := range news {
		to = append(appendTold(to, one), ',')
	}
	return append(bytes.TrimSuffix(to, []byte(",")), "]}}"...)
}

func appendTold(to []byte, one candidate) []byte {
	to = append(to, `{"number":`...)
	to = strconv.AppendInt(to, int64(one.number), 10)
	to = append(to, `,"name":`...)
	to = appendString(to, one.Node().Name)
	to = append(to, `,"generation":`...)
	to = strconv.AppendInt(to, one.generation, 10)
	to = append(to, `,"state":`...)
	return append(append(to, one.state...), '}')
}

func appendState(to []byte, info fwk.NodeInfo, known resourceNames) []byte {
	node := info.Node()
	// Pods may ask for resources that their node has not: anybody can invent them, and no score depends on them.
	offered := known.of(info.GetAllocatable().GetScalarResources())
	to = append(to, `{"allocatable":`...)
	to = appendResource(to, info.GetAllocatable(), offered, int64(info.GetAllocatable().GetAllowedPodNumber()))
	to = append(to, `,"requested":`...)
	to = appendResource(to, info.GetRequested(), offered, int64(len(info.GetPods())))
	scored := info.GetNonZeroRequested()
	to = append(to, `,"scored":{"cpuMilli":`...)
	to = appendAmount(to, scored.GetMilliCPU())
	to = append(to, `,"memoryBytes":`...)
	to = appendAmount(to, scored.GetMemory())
	to = append(to, '}')
	to = appendGPUPods(to, info.GetPods())
	first := true
	for _, key := range nodeLabels {
		if value, has := node.Labels[key]; has {
			to = appendKey(to, &first, `,"labels":{`, key)
			to = appendString(to, value)
		}
	}
	if !first {
		to = append(to, '}')
	}
	for _, address := range node.Status.Addresses {
		if address.Type == v1.NodeInternalIP && len(address.Address) <= mostAddress {
			to = append(to, `,"address":`...)
			to = appendString(to, address.Address)
			break
		}
	}
	return append(to, '}')
}

func appendResource(to []byte, amounts fwk.Resource, extended []v1.ResourceName, pods int64) []byte {
	to = append(to, `{"cpuMilli":`...)
	to = appendAmount(to, amounts.GetMilliCPU())
	to = append(to, `,"memoryBytes":`...)
	to = appendAmount(to, amounts.GetMemory())
	to = append(to, `,"ephemeralStorageBytes":`...)
	to = appendAmount(to, amounts.GetEphemeralStorage())
	to = append(to, `,"pods":`...)
	to = appendAmount(to, pods)
	first := true
	for _, name := range extended {
		if amount := amounts.GetScalarResources()[name]; amount != 0 {
			to = appendKey(to, &first, `,"extended":{`, string(name))
			to = appendAmount(to, amount)
		}
	}
	if !first {
		to = append(to, '}')
	}
	return append(to, '}')
}

// appendGPUPods writes the pods that share devices; what they ask for stands in annotations that no sum holds. Anybody
// who makes a pod writes them: one that asks for no share that there could be has none, and spoils no request.
func appendGPUPods(to []byte, pods []fwk.PodInfo) []byte {
	written := 0
	for _, info := range pods {
		annotations := info.GetPod().Annotations
		milli, count, shares := gpuShare(annotations)
		if !shares || written == mostGPUPods {
			continue
		}
		if written == 0 {
			to = append(to, `,"gpuPods":[{"milli":`...)
		} else {
			to = append(to, `,{"milli":`...)
		}
		written++
		to = appendAmount(to, milli)
		to = append(to, `,"count":`...)
		to = appendAmount(to, count)
		to = append(to, `,"index":`...)
		index := annotations[gpuIndex]
		if len(index) > mostIndex {
			index = ""
		}
		to = appendString(to, index)
		to = append(to, '}')
	}
	if written > 0 {
		to = append(to, ']')
	}
	return to
}

// gpuShare reads what a pod has of how many devices, if it shares any.
func gpuShare(annotations map[string]string) (milli, count int64, shares bool) {
	milliText, hasMilli := annotations[gpuMilli]
	countText, hasCount := annotations[gpuCount]
	milli, count, shares = wholeGPU, 1, hasMilli || hasCount
	if hasMilli {
		milli = wholeNumber(milliText)
	}
	if hasCount {
		count = wholeNumber(countText)
	}
	return milli, count, shares && 0 < milli && milli <= wholeGPU && 0 < count && count <= mostDevices
}

// wholeNumber is -1 for what is none.
func wholeNumber(text string) int64 {
	if number, err := strconv.ParseInt(text, 10, 64); err == nil {
		return number
	}
	if amount, err := resource.ParseQuantity(text); err == nil {
		if number, exact := amount.AsInt64(); exact {
			return number
		}
	}
	return -1
}

func appendKey(to []byte, first *bool, opening, key string) []byte {
	if *first {
		to = append(to, opening...)
	} else {
		to = append(to, ',')
	}
	*first = false
	return append(appendString(to, key), ':')
}

func appendAmount(to []byte, amount int64) []byte {
	return strconv.AppendInt(to, min(max(amount, 0), mostAmount), 10)
}

// appendString quotes; names of nodes and resources never need escapes.
func appendString(to []byte, text string) []byte {
	for i := range len(text) {
		if c := text[i]; c < ' ' || c > '~' || c == '"' || c == '\\' {
			quoted, _ := json.Marshal(text) // of a string it cannot fail
			return append(to, quoted...)
		}
	}
	to = append(to, '"')
	to = append(to, text...)
	return append(to, '"')
}
