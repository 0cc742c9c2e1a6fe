package score

import (
	"fmt"
	"slices"
	"strings"
	"testing"
)

func TestARightAnswerIsRead(t *testing.T) {
	for _, text := range []string{
		`{"apiVersion":"v1","uid":"u","asked":5,"policy":"p","scores":[100,7],"more":[1]}`,
		"{ \"apiVersion\" : \"v1\", \"uid\":\"u\", \"asked\" : 5, \"scores\" : [\n 100 ,\t7 ] }",
	} {
		scores, problem := scoresOf([]byte(text), "u", 2, 5)
		if problem != nil || !slices.Equal(scores, []int8{100, 7}) {
			t.Errorf("%s: %v, %v", text, scores, problem)
		}
	}
}

func TestWrongAnswersAreToldApart(t *testing.T) {
	of := func(scores string) string {
		return fmt.Sprintf(`{"apiVersion":"v1","uid":"u","asked":5,"scores":%s}`, scores)
	}
	for text, why := range map[string]reason{
		``:                                  malformed,
		`garbage`:                           malformed,
		`[]`:                                malformed,
		`null`:                              malformed,
		of(`[100,7]`)[:40]:                  malformed,
		of(`{"node-000":100,"node-001":7}`): malformed,
		of(`"100,7"`):                       malformed,
		of(`null`):                          malformed,
		of(`[NaN,7]`):                       malformed,
		`{"apiVersion":"v1","uid":"u","asked":5}`:                      malformed,
		`{"apiVersion":"v2","uid":"u","asked":5,"scores":[100,7]}`:     malformed,
		`{"apiVersion":"v1","uid":"other","asked":5,"scores":[100,7]}`: wrongPod,
		strings.Replace(of(`[100,7]`), `"asked":5`, `"asked":6`, 1):    wrongNodes,
		strings.Replace(of(`[100,7]`), `"asked":5,`, ``, 1):            wrongNodes,
		of(`[]`):                         wrongNodes,
		of(`[100]`):                      wrongNodes,
		of(`[100,7,7]`):                  wrongNodes,
		of(`[101,7]`):                    wrongScore,
		of(`[100,-1]`):                   wrongScore,
		of(`[100,7.5]`):                  wrongScore,
		of(`[100,1e2]`):                  wrongScore,
		of(`[100,99999999999999999999]`): wrongScore,
		of(`["NaN",7]`):                  wrongScore,
		of(`["100,7"]`):                  wrongScore,
		of(`[[100,7]]`):                  wrongScore,
		of(`[null,100]`):                 wrongScore,
		of(`[99,7]`):                     wrongScore,
	} {
		scores, problem := scoresOf([]byte(text), "u", 2, 5)
		if problem == nil || problem.reason != why || scores != nil {
			t.Errorf("%s: %v, %v, want %s", text, scores, problem, why)
		}
	}
}

// Whatever is answered, it is scores for exactly the candidates or an error, never a panic.
func FuzzAnswers(f *testing.F) {
	f.Add(`{"apiVersion":"v1","uid":"u","asked":5,"scores":[100,7]}`)
	f.Add(`{"apiVersion":"v1","uid":"u","asked":5,"scores":[`)
	f.Add(`{"apiVersion":"v1","uid":"u","asked":5,"scores":[{"a":[1,"`)
	f.Add(`{"scores":[,]}`)
	f.Fuzz(func(t *testing.T, text string) {
		scores, problem := scoresOf([]byte(text), "u", 2, 5)
		if (problem == nil) == (len(scores) != 2) {
			t.Fatalf("%v, %v", scores, problem)
		}
		for _, score := range scores {
			if score < 0 || score > 100 {
				t.Fatal(score)
			}
		}
	})
}

func BenchmarkAnswer(b *testing.B) {
	body := []byte(`{"apiVersion":"v1","uid":"u","asked":5,"policy":"fgd@1","scores":[100` + strings.Repeat(",42", 999) + `]}`)
	for b.Loop() {
		if _, problem := scoresOf(body, "u", 1000, 5); problem != nil {
			b.Fatal(problem)
		}
	}
}
