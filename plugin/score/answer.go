package score

import (
	"bytes"
	"encoding/json"
	"strconv"

	fwk "k8s.io/kube-scheduler/framework"
)

const answerRoom = 4096 // bytes of an answer beside names and scores

// mostBytes that a right answer about these candidates can have, spaces included.
func mostBytes(candidates []fwk.NodeInfo) int64 {
	most := int64(answerRoom)
	for _, info := range candidates {
		most += int64(len(info.Node().Name)) + 16
	}
	return most
}

// scoresOf reads an answer: one whole number from 0 to 100 for each of these candidates of this pod, or an error.
func scoresOf(body []byte, uid string, candidates []fwk.NodeInfo) (map[string]int64, *fallback) {
	var answer struct {
		APIVersion string     `json:"apiVersion"`
		UID        string     `json:"uid"`
		Policy     string     `json:"policy"`
		Scores     scoredList `json:"scores"`
	}
	if err := json.Unmarshal(body, &answer); err != nil {
		return nil, &fallback{malformed, err}
	}
	if answer.APIVersion != apiVersion {
		return nil, because(malformed, "apiVersion %.20q, want %q", answer.APIVersion, apiVersion)
	}
	if answer.UID != uid {
		return nil, because(wrongPod, "for the pod %.60q, asked about %q", answer.UID, uid)
	}
	if len(answer.Scores) != len(candidates) {
		return nil, because(wrongNodes, "%d scores for %d candidates", len(answer.Scores), len(candidates))
	}
	return checkedScores(answer.Scores, candidates)
}

func checkedScores(list scoredList, candidates []fwk.NodeInfo) (map[string]int64, *fallback) {
	given := make(map[string]int64, len(list))
	best, inOrder := int64(fwk.MinNodeScore), true
	for i, one := range list {
		score, err := strconv.ParseInt(string(one.score), 10, 64)
		if err != nil || score < fwk.MinNodeScore || score > fwk.MaxNodeScore {
			return nil, because(wrongScore, "%.40s for %.60q, want a whole number from 0 to 100", one.score, one.name)
		}
		name := candidates[i].Node().Name
		if string(one.name) != name { // in another order than asked, or another node
			name, inOrder = string(one.name), false
		}
		given[name] = score
		best = max(best, score)
	}
	for _, info := range candidates { // as many as there are scores: none missing is none too many and none twice
		if inOrder {
			break
		}
		if _, has := given[info.Node().Name]; !has {
			return nil, because(wrongNodes, "none for the candidate %q", info.Node().Name)
		}
	}
	if best != fwk.MaxNodeScore && best != fwk.MinNodeScore {
		return nil, because(wrongScore, "the best candidate has %d, want 100", best)
	}
	return given, nil
}

// scoredList is an object of numbers as it stands, doubles included. Decoded by hand: a map of a thousand entries
// by reflection takes several times as long, and keeps the last of two equal keys in silence.
type scoredList []scored

type scored struct{ name, score []byte }

// UnmarshalJSON is given what the decoder has found to be well-formed.
func (l *scoredList) UnmarshalJSON(text []byte) error {
	body, found := bytes.CutPrefix(bytes.TrimSpace(text), []byte("{"))
	if !found {
		return strconv.ErrSyntax
	}
	body = bytes.TrimSpace(body[:len(body)-1])
	list := make(scoredList, 0, bytes.Count(body, []byte(":")))
	for len(body) > 0 {
		name, rest, closed := bytes.Cut(body[1:], []byte(`"`))
		value, next, _ := bytes.Cut(bytes.TrimSpace(rest), []byte(","))
		value, isPair := bytes.CutPrefix(value, []byte(":"))
		if body[0] != '"' || !closed || !isPair || bytes.ContainsAny(value, "{[") || bytes.IndexByte(name, '\\') >= 0 {
			return strconv.ErrSyntax // an array, an object, a text, or an escape, which no name of a node has
		}
		list = append(list, scored{name, bytes.TrimSpace(value)})
		body = bytes.TrimSpace(next)
	}
	*l = list
	return nil
}
