package score

import (
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/runtime"
)

func TestArgumentsHaveDefaults(t *testing.T) {
	args := argsFrom(t, `{"socket": "/run/pilotage.sock"}`)
	if args.Deadline.Duration != 100*time.Millisecond || args.Failures != 3 || args.MaxBackoff.Duration != 3*time.Second {
		t.Fatalf("%+v", args)
	}
}

func TestArgumentsAsYAML(t *testing.T) {
	given := &runtime.Unknown{Raw: []byte("url: https://a:1\ndeadline: 1s\n"), ContentType: runtime.ContentTypeYAML}
	args, err := readArgs(given)
	if err != nil || args.Deadline.Duration != time.Second {
		t.Fatalf("%+v, %v", args, err)
	}
}

func TestWrongArgumentsAreNamed(t *testing.T) {
	for text, said := range map[string]string{
		``:                                         "exactly one of socket and url",
		`{"socket": "/s", "url": "https://a"}`:     "exactly one of socket and url",
		`{"socket": "s"}`:                          "absolute path",
		`{"socket": "/s", "caFile": "/ca"}`:        "no TLS",
		`{"url": "https://"}`:                      "https://host:port",
		`{"url": "ftp://a"}`:                       "https://host:port",
		`{"url": "http://a:1"}`:                    "leaves this machine in the open",
		`{"url": "https://u:p@a:1"}`:               "tokenFile",
		`{"url": "https://a:1/path"}`:              "no path",
		`{"url": "https://a:1", "certFile": "/c"}`: "both of certFile and keyFile",
		`{"socket": "/s", "deadline": "0s"}`:       "deadline",
		`{"socket": "/s", "deadline": "1h"}`:       "deadline",
		`{"socket": "/s", "deadline": "soon"}`:     "duration",
		`{"socket": "/s", "failures": 0}`:          "failures",
		`{"socket": "/s", "backoff": "1ns"}`:       "backoff",
		`{"socket": "/s", "maxBackoff": "10ms"}`:   "maxBackoff",
		`{"socket": "/s", "Deadline": "1s"}`:       "unknown field",
		`{"socket": "/s", "socket": "/t"}`:         "duplicate field",
		`[]`:                                       "cannot unmarshal",
	} {
		_, err := readArgs(&runtime.Unknown{Raw: []byte(text), ContentType: runtime.ContentTypeJSON})
		if err == nil || !strings.Contains(err.Error(), said) {
			t.Errorf("%s: %v, want %q", text, err, said)
		}
	}
}

func TestMissingCertificatesAreFoundAtTheStart(t *testing.T) {
	for _, text := range []string{
		`{"url": "https://a:1", "caFile": "/nowhere"}`,
		`{"url": "https://a:1", "certFile": "/nowhere", "keyFile": "/nowhere"}`,
		`{"url": "https://a:1", "tokenFile": "/nowhere"}`,
	} {
		if _, err := newClient(argsFrom(t, text)); err == nil || !strings.Contains(err.Error(), "/nowhere") {
			t.Errorf("%s: %v", text, err)
		}
	}
}
