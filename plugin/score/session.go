package score

import (
	"bytes"
	"context"
	"maps"
	"time"

	"k8s.io/apimachinery/pkg/util/uuid"
	fwk "k8s.io/kube-scheduler/framework"
)

const (
	mostStates   = 500    // that one request brings: a new service learns a large cluster in several
	fewestStates = 50     // that it brings at least, where there are as many, to a service that takes long
	mostNumbered = 50_000 // nodes of a session that the service keeps; nodes come and go
	never        = -1     // no generation
	unnumbered   = -1
)

// session is what the service is known to know of the nodes: per node, what kube-scheduler's own snapshot said of it when
// it was told last. Only what is another state since is sent again, so pods that are assumed, but not bound yet, count
// from the next pod on. A node has a number here, which travels in the place of its name.
//
// One caller at a time.
type session struct {
	client    *client
	policy    string
	onSent    func(states int)
	id        string
	numbers   map[string]int32 // by name; replaced, never written to: scores of pods are looked up by it
	told      []told           // by number
	resources resourceNames    // that the service was told of
	atOnce    int              // states that the next request may bring
}

// told is what the service knows of a node.
type told struct {
	state      []byte
	generation int64 // of the snapshot that it was told from
	same       int64 // the newest generation that came to the same state: most of them, as pods are confirmed and start
}

var untold = told{nil, never, never}

// candidate is a node that the pod may go to.
type candidate struct {
	fwk.NodeInfo
	number     int32
	generation int64  // as the service knows it, or will
	state      []byte // that it is to be told
}

func newSession(client *client, policy string, onSent func(int)) *session {
	begun := &session{client: client, policy: policy, onSent: onSent, atOnce: mostStates}
	begun.begin()
	return begun
}

func (s *session) begin() {
	s.id, s.numbers, s.told, s.resources = string(uuid.NewUUID()), nil, nil, resourceNames{}
}

// scores asks about all candidates of a pod, and once more when the service says that it has forgotten some. The deadline
// of the context holds for all requests together.
func (s *session) scores(ctx context.Context, pod []byte, uid string, nodes []fwk.NodeInfo) (*podScores, *fallback) {
	candidates := s.numbered(nodes)
	for range 2 {
		scores, problem := s.attempt(ctx, pod, uid, candidates)
		if problem != nil {
			return nil, problem
		}
		if scores != nil {
			s.atOnce = mostStates
			return s.byNumber(candidates, scores), nil
		}
		for number := range s.told {
			s.told[number] = untold
		}
	}
	return nil, because(failing, "the service forgets nodes that it was just told of")
}

// attempt returns no scores where the service has forgotten nodes.
func (s *session) attempt(ctx context.Context, pod []byte, uid string, candidates []candidate) ([]byte, *fallback) {
	for {
		news := s.news(candidates)
		if len(news) <= s.atOnce {
			return s.request(ctx, pod, uid, candidates, news)
		}
		// What a request taught holds, also when the deadline passes before the last one: the next pod goes on from here.
		part := news[:s.atOnce]
		if scores, problem := s.request(ctx, pod, uid, part, part); scores == nil {
			return nil, problem
		}
	}
}

func (s *session) request(ctx context.Context, pod []byte, uid string, candidates, news []candidate) ([]byte, *fallback) {
	s.onSent(len(news))
	asked := columnsOf(candidates)
	body := appendRequest(nil, head{s.id, s.policy, pod}, asked, news, remaining(ctx).Milliseconds())
	answer, problem := s.client.ask(ctx, body, mostBytes(len(candidates)))
	if problem != nil && problem.reason == late && len(news) > fewestStates {
		s.atOnce = max(len(news)/2, fewestStates) // the same again would be late again: no pod would ever be scored
	}
	if answer == nil {
		return nil, problem
	}
	for _, one := range news {
		s.told[one.number] = told{one.state, one.generation, one.generation}
	}
	return scoresOf(answer, uid, asked)
}

// numbered finds the numbers of nodes; new ones get theirs.
func (s *session) numbered(nodes []fwk.NodeInfo) []candidate {
	found, fresh := make([]candidate, len(nodes)), 0
	for i, info := range nodes {
		number, has := s.numbers[info.Node().Name]
		if !has {
			number = unnumbered
			fresh++
		}
		found[i] = candidate{NodeInfo: info, number: number}
	}
	if fresh == 0 {
		return found
	}
	if len(s.told) > 0 && len(s.told)+fresh > mostNumbered {
		s.begin()
		return s.numbered(nodes)
	}
	numbers := make(map[string]int32, len(s.numbers)+fresh)
	maps.Copy(numbers, s.numbers)
	for i := range found {
		if found[i].number == unnumbered {
			found[i].number = int32(len(s.told))
			numbers[found[i].Node().Name] = found[i].number
			s.told = append(s.told, untold)
		}
	}
	s.numbers = numbers
	return found
}

// news are the candidates whose state the service does not know.
func (s *session) news(candidates []candidate) (found []candidate) {
	for i := range candidates {
		one, known := &candidates[i], &s.told[candidates[i].number]
		if generation := one.GetGeneration(); known.generation == never || known.same != generation {
			one.state = appendState(make([]byte, 0, stateRoom), one.NodeInfo, s.resources)
			if known.generation == never || !bytes.Equal(one.state, known.state) {
				one.generation = generation
				found = append(found, *one)
				continue
			}
			known.same = generation
		}
		one.generation = known.generation
	}
	return found
}

func (s *session) byNumber(candidates []candidate, scores []byte) *podScores {
	found := &podScores{s.numbers, make([]byte, len(s.told))}
	for i, one := range candidates {
		found.scores[one.number] = scores[i]
	}
	return found
}

func remaining(ctx context.Context) time.Duration {
	deadline, has := ctx.Deadline()
	if !has {
		return longestDeadline
	}
	return max(time.Until(deadline), time.Millisecond)
}
