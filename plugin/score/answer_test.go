package score

import (
	"fmt"
	"strings"
	"testing"
)

func TestARightAnswerIsRead(t *testing.T) {
	for _, text := range []string{
		`{"apiVersion":"v1","uid":"u","policy":"p","scores":{"node-000":100,"node-001":7},"more":[1]}`,
		"{ \"apiVersion\" : \"v1\", \"uid\":\"u\", \"scores\" : {\n \"node-001\" : 7 ,\t\"node-000\" : 100 } }",
	} {
		scores, problem := scoresOf([]byte(text), "u", someNodes(2))
		if problem != nil || scores["node-000"] != 100 || scores["node-001"] != 7 {
			t.Errorf("%s: %v, %v", text, scores, problem)
		}
	}
}

func TestWrongAnswersAreToldApart(t *testing.T) {
	of := func(scores string) string { return fmt.Sprintf(`{"apiVersion":"v1","uid":"u","scores":%s}`, scores) }
	for text, why := range map[string]reason{
		``:                                    malformed,
		`garbage`:                             malformed,
		`[]`:                                  malformed,
		`null`:                                malformed,
		of(`{}`)[:30]:                         malformed,
		of(`[100,7]`):                         malformed,
		of(`null`):                            malformed,
		of(`{"node-000":NaN,"node-001":7}`):   malformed,
		of(`{"node-000":[1,2],"node-001":7}`): malformed,
		of(`{"node-000":{"a":1,"b":2},"node-001":7}`):      malformed,
		of(`{"node-000":"a,b","node-001":7}`):              malformed,
		of(`{"node-\u0030\u0030\u0030":100,"node-001":7}`): malformed,
		`{"apiVersion":"v2","uid":"u","scores":{}}`:        malformed,
		`{"apiVersion":"v1","uid":"other","scores":{}}`:    wrongPod,
		of(`{}`):                                               wrongNodes,
		of(`{"node-000":100}`):                                 wrongNodes,
		of(`{"node-000":100,"node-002":7}`):                    wrongNodes,
		of(`{"node-000":100,"node-000":7}`):                    wrongNodes,
		of(`{"node-000":100,"node-001":7,"node-002":7}`):       wrongNodes,
		of(`{"node-000":101,"node-001":7}`):                    wrongScore,
		of(`{"node-000":100,"node-001":-1}`):                   wrongScore,
		of(`{"node-000":100,"node-001":7.5}`):                  wrongScore,
		of(`{"node-000":100,"node-001":1e2}`):                  wrongScore,
		of(`{"node-000":100,"node-001":99999999999999999999}`): wrongScore,
		of(`{"node-000":"NaN","node-001":7}`):                  wrongScore,
		of(`{"node-000":null,"node-001":100}`):                 wrongScore,
		of(`{"node-000":99,"node-001":7}`):                     wrongScore,
	} {
		scores, problem := scoresOf([]byte(text), "u", someNodes(2))
		if problem == nil || problem.reason != why || scores != nil {
			t.Errorf("%s: %v, %v, want %s", text, scores, problem, why)
		}
	}
}

// Whatever is answered, it is scores for exactly the candidates or an error, never a panic.
func FuzzAnswers(f *testing.F) {
	nodes := someNodes(2)
	f.Add(`{"apiVersion":"v1","uid":"u","scores":{"node-000":100,"node-001":7}}`)
	f.Add(`{"apiVersion":"v1","uid":"u","scores":{"`)
	f.Add(`{"apiVersion":"v1","uid":"u","scores":{"node-000":{"a":[1,"`)
	f.Add(`{"scores":{,}}`)
	f.Fuzz(func(t *testing.T, text string) {
		scores, problem := scoresOf([]byte(text), "u", nodes)
		if (problem == nil) == (len(scores) != len(nodes)) {
			t.Fatalf("%v, %v", scores, problem)
		}
		for name, score := range scores {
			if !strings.HasPrefix(name, "node-00") || score < 0 || score > 100 {
				t.Fatalf("%s: %d", name, score)
			}
		}
	})
}

func BenchmarkAnswer(b *testing.B) {
	nodes := someNodes(1000)
	text := strings.Builder{}
	text.WriteString(`{"apiVersion":"v1","uid":"u","policy":"fgd@1","scores":{"node-000":100`)
	for _, info := range nodes[1:] {
		fmt.Fprintf(&text, `,%q:42`, info.Node().Name)
	}
	text.WriteString(`}}`)
	body := []byte(text.String())
	for b.Loop() {
		if _, problem := scoresOf(body, "u", nodes); problem != nil {
			b.Fatal(problem)
		}
	}
}
