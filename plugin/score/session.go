package score

import (
	"context"
	"time"

	"k8s.io/apimachinery/pkg/util/uuid"
	fwk "k8s.io/kube-scheduler/framework"
)

const (
	mostStates = 500     // that one request brings: a new service learns a large cluster in several
	mostKnown  = 100_000 // nodes that are remembered to be known; nodes come and go
)

// session is what the service is known to know of the nodes: per node, the generation of kube-scheduler's own snapshot
// that it was told last. Only what has changed since is sent again, so pods that are assumed, but not bound yet, count
// from the next pod on.
//
// One caller at a time.
type session struct {
	client *client
	id     string
	policy string
	known  map[string]int64
	size   int // of the last request
	onSent func(states int)
}

func newSession(client *client, policy string, onSent func(int)) *session {
	return &session{client: client, id: string(uuid.NewUUID()), policy: policy, known: map[string]int64{}, onSent: onSent}
}

// scores asks about all candidates of a pod. The deadline of the context holds for all requests together.
func (s *session) scores(ctx context.Context, pod []byte, uid string, candidates []fwk.NodeInfo) (map[string]int64, *fallback) {
	if len(s.known) > mostKnown {
		clear(s.known)
	}
	for {
		news := s.changed(candidates)
		if len(news) <= mostStates {
			break
		}
		// What a request taught holds, also when the deadline passes before the last one: the next pod goes on from here.
		if _, problem := s.request(ctx, pod, uid, news[:mostStates]); problem != nil {
			return nil, problem
		}
	}
	return s.request(ctx, pod, uid, candidates)
}

func (s *session) changed(candidates []fwk.NodeInfo) (found []fwk.NodeInfo) {
	for _, info := range candidates {
		if !s.knows(info) {
			found = append(found, info)
		}
	}
	return found
}

func (s *session) knows(info fwk.NodeInfo) bool {
	generation, has := s.known[info.Node().Name]
	return has && generation == info.GetGeneration()
}

// request asks once, and once more with what the service says it has forgotten.
func (s *session) request(ctx context.Context, pod []byte, uid string, candidates []fwk.NodeInfo) (map[string]int64, *fallback) {
	for range 2 {
		news := s.changed(candidates)
		body := make([]byte, 0, s.size+s.size/8+4096)
		body = appendRequest(body, head{s.id, s.policy, pod}, candidates, s.knows, remaining(ctx).Milliseconds())
		s.size = len(body)
		s.onSent(len(news))
		answer, unknown, problem := s.client.ask(ctx, body, mostBytes(candidates))
		if problem != nil {
			return nil, problem
		}
		for _, info := range news {
			s.known[info.Node().Name] = info.GetGeneration()
		}
		if len(unknown) == 0 {
			return scoresOf(answer, uid, candidates)
		}
		for _, name := range unknown {
			delete(s.known, name)
		}
	}
	return nil, because(failing, "the service forgets nodes that it was just told of")
}

func remaining(ctx context.Context) time.Duration {
	deadline, has := ctx.Deadline()
	if !has {
		return longestDeadline
	}
	return max(time.Until(deadline), time.Millisecond)
}
