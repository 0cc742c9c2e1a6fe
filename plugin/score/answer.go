package score

import (
	"encoding/base64"
	"encoding/json"
	"hash/crc32"
	"slices"

	fwk "k8s.io/kube-scheduler/framework"
)

const (
	answerRoom = 4096 // bytes of an answer beside scores
	scoreRoom  = 2    // bytes of a score in base64
)

// mostBytes that a right answer about so many candidates can have.
func mostBytes(candidates int) int64 { return answerRoom + scoreRoom*int64(candidates) }

// scoresOf reads an answer: one number from 0 to 100 for each candidate of this pod, as they were asked about, or an
// error. The answer brings a checksum of the numbers that were asked about: scores in a row do not say whose they are.
func scoresOf(body []byte, uid string, asked columns) ([]byte, *fallback) {
	var answer struct {
		APIVersion string `json:"apiVersion"`
		UID        string `json:"uid"`
		Asked      uint32 `json:"asked"`
		Scores     string `json:"scores"` // base64
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
	if sum := crc32.ChecksumIEEE(asked.numbers); answer.Asked != sum {
		return nil, because(wrongNodes, "for candidates with the checksum %d, asked about %d", answer.Asked, sum)
	}
	scores, err := base64.StdEncoding.DecodeString(answer.Scores)
	if err != nil {
		return nil, &fallback{malformed, err}
	}
	if want := len(asked.numbers) / 4; len(scores) != want {
		return nil, because(wrongNodes, "%d scores for %d candidates", len(scores), want)
	}
	switch best := int64(slices.Max(scores)); {
	case best > fwk.MaxNodeScore:
		return nil, because(wrongScore, "%d, want a number from 0 to 100", best)
	case best != fwk.MaxNodeScore && best != fwk.MinNodeScore:
		return nil, because(wrongScore, "the best candidate has %d, want 100", best)
	}
	return scores, nil
}
