// Package score is a plugin of kube-scheduler that has candidates scored by a running `pilotage serve`.
//
// It never decides alone and never stands in the way: where the service is absent, slow or wrong, the pod is decided by
// the other plugins of its profile, and the reason is counted.
package score

import (
	"context"
	"errors"
	"fmt"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/utils/clock"
)

// Name under which profiles enable the plugin.
const Name = "Pilotage"

const stateKey fwk.StateKey = Name

// Plugin asks in PreScore, once per pod for all candidates, and reads the answer in Score.
//
// It is no SignPlugin: a pod's signature would let kube-scheduler reuse an old order of nodes for up to half a second,
// and a policy's order changes with every placement.
type Plugin struct {
	handle   fwk.Handle
	profile  string
	deadline time.Duration
	turn     chan struct{} // holds one token: session and breaker are used by one pod at a time
	session  *session
	breaker  *breaker
	last     reason // of the last failure, "" after a success: what is told apart in the log
}

var (
	_ fwk.PreScorePlugin  = &Plugin{}
	_ fwk.ScorePlugin     = &Plugin{}
	_ fwk.ScoreExtensions = &Plugin{}
)

// New is the factory that kube-scheduler is given. Wrong arguments end kube-scheduler at its start, never later.
func New(_ context.Context, given runtime.Object, handle fwk.Handle) (fwk.Plugin, error) {
	args, err := readArgs(given)
	if err != nil {
		return nil, fmt.Errorf("plugin %s: %w", Name, err)
	}
	return newPlugin(args, handle, clock.RealClock{})
}

func newPlugin(args Args, handle fwk.Handle, clock clock.PassiveClock) (*Plugin, error) {
	client, err := newClient(args)
	if err != nil {
		return nil, fmt.Errorf("plugin %s: %w", Name, err)
	}
	profile := handle.ProfileName()
	registerMetrics(profile)
	sent := sentStates.WithLabelValues(profile)
	return &Plugin{
		handle: handle, profile: profile, deadline: args.Deadline.Duration, turn: make(chan struct{}, 1),
		session: newSession(client, args.Policy, func(states int) { sent.Add(float64(states)) }),
		breaker: newBreaker(args, clock),
	}, nil
}

// Name of the plugin.
func (p *Plugin) Name() string { return Name }

// podScores are the answer about one pod, in the state of its cycle.
type podScores struct {
	numbers map[string]int32
	scores  []byte // by number
}

// Clone returns the same: nobody writes to it.
func (s *podScores) Clone() fwk.StateData { return s }

func (s *podScores) of(node string) int64 {
	if number, has := s.numbers[node]; has {
		return int64(s.scores[number])
	}
	return fwk.MinNodeScore
}

// PreScore asks about all candidates. Skip: the other plugins decide.
func (p *Plugin) PreScore(ctx context.Context, state fwk.CycleState, pod *v1.Pod, nodes []fwk.NodeInfo) *fwk.Status {
	scores, ok := p.ask(ctx, pod, nodes)
	if !ok {
		return fwk.NewStatus(fwk.Skip)
	}
	state.Write(stateKey, scores)
	return nil
}

// Score reads. In a profile that enables Score alone there is nothing to read yet: NormalizeScore asks then.
func (p *Plugin) Score(_ context.Context, state fwk.CycleState, _ *v1.Pod, info fwk.NodeInfo) (int64, *fwk.Status) {
	scores, err := state.Read(stateKey)
	if err != nil {
		return fwk.MinNodeScore, nil
	}
	return scores.(*podScores).of(info.Node().Name), nil
}

// ScoreExtensions returns the plugin itself.
func (p *Plugin) ScoreExtensions() fwk.ScoreExtensions { return p }

// NormalizeScore keeps 0..100, which answers have. Where PreScore is not enabled, this is the one place that knows all
// candidates, so it asks; without an answer all stay equal, and the other plugins decide.
func (p *Plugin) NormalizeScore(ctx context.Context, state fwk.CycleState, pod *v1.Pod, list fwk.NodeScoreList) *fwk.Status {
	if _, err := state.Read(stateKey); err == nil {
		return nil
	}
	nodes := make([]fwk.NodeInfo, 0, len(list))
	for _, one := range list {
		info, err := p.handle.SnapshotSharedLister().NodeInfos().Get(one.Name)
		if err != nil {
			return nil // not of this snapshot: nothing that could be said of it
		}
		nodes = append(nodes, info)
	}
	if scores, ok := p.ask(ctx, pod, nodes); ok {
		for i := range list {
			list[i].Score = scores.of(list[i].Name)
		}
	}
	return nil
}

// ask returns scores, or counts why there are none.
func (p *Plugin) ask(ctx context.Context, pod *v1.Pod, nodes []fwk.NodeInfo) (*podScores, bool) {
	began := time.Now()
	scores, problem := p.guarded(ctx, pod, nodes)
	if problem == nil {
		seconds.WithLabelValues(p.profile).Observe(time.Since(began).Seconds())
		scoredPods.WithLabelValues(p.profile).Inc()
		return scores, true
	}
	if problem.reason != circuitIsOpen {
		seconds.WithLabelValues(p.profile).Observe(time.Since(began).Seconds())
	}
	fallbacks.WithLabelValues(p.profile, string(problem.reason)).Inc()
	klog.FromContext(ctx).V(3).Info("Pilotage does not score this pod", "pod", klog.KObj(pod), "uid", pod.UID,
		"reason", problem.reason, "err", problem.err)
	return nil, false
}

// guarded asks if the breaker lets it. A panic in here is a fallback like the others: it must not end kube-scheduler.
func (p *Plugin) guarded(ctx context.Context, pod *v1.Pod, nodes []fwk.NodeInfo) (scores *podScores, problem *fallback) {
	ctx, cancel := context.WithTimeout(ctx, p.deadline)
	defer cancel()
	select {
	case p.turn <- struct{}{}:
		defer func() { <-p.turn }()
	case <-ctx.Done():
		return nil, transportFailure(ctx, ctx.Err()) // behind another pod
	}
	defer func() {
		if found := recover(); found != nil {
			scores, problem = nil, because(panicked, "%v", found)
		}
	}()
	if !p.breaker.allows() {
		return nil, &fallback{circuitIsOpen, errCircuitOpen}
	}
	encoded, err := encodedPod(pod)
	if err != nil {
		return nil, &fallback{panicked, err}
	}
	scores, problem = p.session.scores(ctx, encoded, string(pod.UID), nodes)
	p.judge(ctx, problem)
	return scores, problem
}

var errCircuitOpen = errors.New("the service is left alone for a while")

// judge tells the breaker, and the log what is news.
func (p *Plugin) judge(ctx context.Context, problem *fallback) {
	if problem == nil {
		p.last = ""
	} else if problem.reason != p.last {
		p.last = problem.reason
		klog.FromContext(ctx).Info("Pilotage gives no scores: other plugins decide", "profile", p.profile,
			"reason", problem.reason, "err", problem.err)
	}
	switch {
	case problem == nil || problem.reason == refused:
		if p.breaker.succeeded() {
			circuitOpen.WithLabelValues(p.profile).Set(0)
			klog.FromContext(ctx).Info("Pilotage answers again", "profile", p.profile)
		}
	case problem.blamesService():
		if p.breaker.fails() {
			circuitOpen.WithLabelValues(p.profile).Set(1)
			klog.FromContext(ctx).Info("Pilotage is left alone for a while", "profile", p.profile)
		}
	}
}
