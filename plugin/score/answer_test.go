package score

import (
	"bytes"
	"encoding/base64"
	"fmt"
	"hash/crc32"
	"slices"
	"strings"
	"testing"
)

var twoAsked = columns{numbers: []byte{7, 0, 0, 0, 3, 0, 0, 0}}

// answerAbout is right but for its scores, which are written as they are given.
func answerAbout(asked columns, scores string) string {
	sum := crc32.ChecksumIEEE(asked.numbers)
	return fmt.Sprintf(`{"apiVersion":"v1","uid":"u","asked":%d,"policy":"p","scores":%s}`, sum, scores)
}

func encoded(scores ...byte) string { return `"` + base64.StdEncoding.EncodeToString(scores) + `"` }

func TestARightAnswerIsRead(t *testing.T) {
	text := answerAbout(twoAsked, encoded(100, 7))
	for _, text := range []string{text, " " + strings.ReplaceAll(text, `,"`, " , \n\t\"") + " "} {
		scores, problem := scoresOf([]byte(text), "u", twoAsked)
		if problem != nil || !slices.Equal(scores, []byte{100, 7}) {
			t.Errorf("%s: %v, %v", text, scores, problem)
		}
	}
}

func TestWrongAnswersAreToldApart(t *testing.T) {
	right := answerAbout(twoAsked, encoded(100, 7))
	of := func(scores string) string { return answerAbout(twoAsked, scores) }
	for text, why := range map[string]reason{
		``:                                  malformed,
		`garbage`:                           malformed,
		`[]`:                                malformed,
		`null`:                              malformed,
		right[:40]:                          malformed,
		of(`{"node-000":100,"node-001":7}`): malformed,
		of(`[100,7]`):                       malformed,
		of(`"100,7"`):                       malformed,
		of(`[NaN,7]`):                       malformed,
		strings.Replace(right, `"v1"`, `"v2"`, 1):    malformed,
		strings.Replace(right, `"u"`, `"other"`, 1):  wrongPod,
		answerAbout(columns{}, encoded(100, 7)):      wrongNodes,
		strings.Replace(right, `asked`, `others`, 1): wrongNodes,
		of(`null`):             wrongNodes,
		of(`""`):               wrongNodes,
		of(encoded(100)):       wrongNodes,
		of(encoded(100, 7, 7)): wrongNodes,
		of(encoded(101, 7)):    wrongScore,
		of(encoded(100, 255)):  wrongScore,
		of(encoded(99, 7)):     wrongScore,
	} {
		scores, problem := scoresOf([]byte(text), "u", twoAsked)
		if problem == nil || problem.reason != why || scores != nil {
			t.Errorf("%s: %v, %v, want %s", text, scores, problem, why)
		}
	}
}

// Whatever is answered, it is scores for exactly the candidates or an error, never a panic.
func FuzzAnswers(f *testing.F) {
	f.Add(answerAbout(twoAsked, encoded(100, 7)))
	f.Add(answerAbout(twoAsked, `"ZA`))
	f.Add(answerAbout(twoAsked, `"ZAc`))
	f.Add(`{"scores":"==="}`)
	f.Fuzz(func(t *testing.T, text string) {
		scores, problem := scoresOf([]byte(text), "u", twoAsked)
		if (problem == nil) == (len(scores) != 2) {
			t.Fatalf("%v, %v", scores, problem)
		}
		for _, score := range scores {
			if score > 100 {
				t.Fatal(score)
			}
		}
	})
}

func BenchmarkAnswer(b *testing.B) {
	asked := columns{numbers: make([]byte, 4000)}
	body := []byte(answerAbout(asked, encoded(append(bytes.Repeat([]byte{42}, 999), 100)...)))
	for b.Loop() {
		if _, problem := scoresOf(body, "u", asked); problem != nil {
			b.Fatal(problem)
		}
	}
}
