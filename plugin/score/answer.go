package score

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"hash/crc32"
	"strconv"

	fwk "k8s.io/kube-scheduler/framework"
)

const (
	answerRoom = 4096 // bytes of an answer beside scores
	scoreRoom  = 16   // bytes of a score, spaces included
)

// checksumOf is a CRC-32 of the numbers asked about, 32 bits each, the lowest first. The answer brings it back: scores in a
// list do not say whose they are.
func checksumOf(candidates []candidate) uint32 {
	numbers := make([]byte, 0, 4*len(candidates))
	for _, one := range candidates {
		numbers = binary.LittleEndian.AppendUint32(numbers, uint32(one.number))
	}
	return crc32.ChecksumIEEE(numbers)
}

// mostBytes that a right answer about so many candidates can have.
func mostBytes(candidates int) int64 { return answerRoom + scoreRoom*int64(candidates) }

// scoresOf reads an answer: one whole number from 0 to 100 for each candidate of this pod, as they were asked about, or
// an error. asked: their checksum.
func scoresOf(body []byte, uid string, candidates int, asked uint32) ([]int8, *fallback) {
	var answer struct {
		APIVersion string          `json:"apiVersion"`
		UID        string          `json:"uid"`
		Asked      uint32          `json:"asked"`
		Scores     json.RawMessage `json:"scores"`
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
	if answer.Asked != asked {
		return nil, because(wrongNodes, "for candidates with the checksum %d, asked about %d", answer.Asked, asked)
	}
	list, isList := bytes.CutPrefix(answer.Scores, []byte("["))
	if !isList {
		return nil, because(malformed, "scores are %.40q, want a list", answer.Scores)
	}
	return listedScores(bytes.TrimSuffix(list, []byte("]")), candidates)
}

// listedScores reads what stands between the brackets. By hand: by reflection it takes several times as long.
func listedScores(list []byte, candidates int) ([]int8, *fallback) {
	if given := bytes.Count(list, []byte(",")) + 1; given != candidates {
		return nil, because(wrongNodes, "%d scores for %d candidates", given, candidates)
	}
	scores, best := make([]int8, 0, candidates), int64(fwk.MinNodeScore)
	for text := range bytes.SplitSeq(list, []byte(",")) {
		score, err := strconv.ParseInt(string(bytes.TrimSpace(text)), 10, 64)
		if err != nil || score < fwk.MinNodeScore || score > fwk.MaxNodeScore {
			return nil, because(wrongScore, "%.40q, want a whole number from 0 to 100", text)
		}
		scores = append(scores, int8(score))
		best = max(best, score)
	}
	if best != fwk.MaxNodeScore && best != fwk.MinNodeScore {
		return nil, because(wrongScore, "the best candidate has %d, want 100", best)
	}
	return scores, nil
}
