package score

import (
	"errors"
	"fmt"
	"net"
	"net/url"
	"path/filepath"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	kjson "sigs.k8s.io/json"
	"sigs.k8s.io/yaml"
)

const (
	defaultDeadline   = 100 * time.Millisecond
	defaultFailures   = 3
	defaultBackoff    = 200 * time.Millisecond
	defaultMaxBackoff = 3 * time.Second

	longestDeadline = 5 * time.Second
	longestBackoff  = time.Minute
	mostFailures    = 1000
	longestPolicy   = 256
)

// Args is what `pluginConfig` of a profile says. Exactly one of Socket and URL is given.
type Args struct {
	// Path of the Unix socket that the service listens on.
	Socket string `json:"socket,omitempty"`
	// Address of the service: https://host:port, or http:// on the loopback address alone.
	URL string `json:"url,omitempty"`
	// What scores, of what the service offers; empty: its default.
	Policy string `json:"policy,omitempty"`
	// That a pod may wait for an answer, all requests for it together.
	Deadline metav1.Duration `json:"deadline,omitempty"`

	// Authority that the service's certificate is checked against; empty: those of the system.
	CAFile string `json:"caFile,omitempty"`
	// Name that the service's certificate must have; empty: the host of the URL.
	ServerName string `json:"serverName,omitempty"`
	// Client certificate and its key; read again when they change.
	CertFile string `json:"certFile,omitempty"`
	KeyFile  string `json:"keyFile,omitempty"`
	// Bearer token; read again every minute.
	TokenFile string `json:"tokenFile,omitempty"`

	// Failures in a row after which the service is left alone for a while,
	Failures int `json:"failures,omitempty"`
	// at first for this long, then twice as long each time,
	Backoff metav1.Duration `json:"backoff,omitempty"`
	// but never longer than this.
	MaxBackoff metav1.Duration `json:"maxBackoff,omitempty"`
}

// readArgs reads and checks the arguments of a profile; all that is wrong is in the error.
func readArgs(given runtime.Object) (Args, error) {
	args := Args{
		Deadline:   metav1.Duration{Duration: defaultDeadline},
		Failures:   defaultFailures,
		Backoff:    metav1.Duration{Duration: defaultBackoff},
		MaxBackoff: metav1.Duration{Duration: defaultMaxBackoff},
	}
	if given == nil {
		return args, args.check()
	}
	unknown, ok := given.(*runtime.Unknown)
	if !ok {
		return args, fmt.Errorf("args: %T, want an object", given)
	}
	superfluous, err := decode(unknown, &args)
	if err != nil {
		return args, fmt.Errorf("args: %w", err)
	}
	return args, errors.Join(append(superfluous, args.check())...)
}

// decode returns fields that are unknown or given twice apart from what cannot be read at all.
func decode(given *runtime.Unknown, into *Args) (superfluous []error, err error) {
	raw := given.Raw
	if given.ContentType == runtime.ContentTypeYAML {
		if raw, err = yaml.YAMLToJSON(raw); err != nil {
			return nil, err
		}
	}
	if len(raw) == 0 {
		return nil, nil
	}
	return kjson.UnmarshalStrict(raw, into)
}

func (a *Args) check() error {
	var wrong []error
	say := func(format string, values ...any) { wrong = append(wrong, fmt.Errorf(format, values...)) }
	if (a.Socket == "") == (a.URL == "") {
		say("give exactly one of socket and url")
	}
	if a.Socket != "" {
		if !filepath.IsAbs(a.Socket) {
			say("socket: %q, want an absolute path", a.Socket)
		}
		for name, value := range map[string]string{
			"caFile": a.CAFile, "serverName": a.ServerName, "certFile": a.CertFile, "keyFile": a.KeyFile,
		} {
			if value != "" {
				say("%s: a Unix socket has no TLS; want it with url alone", name)
			}
		}
	}
	if a.URL != "" {
		if err := checkURL(a.URL); err != nil {
			say("url: %w", err)
		}
	}
	if (a.CertFile == "") != (a.KeyFile == "") {
		say("give both of certFile and keyFile, or neither")
	}
	if len(a.Policy) > longestPolicy {
		say("policy: %d characters, want at most %d", len(a.Policy), longestPolicy)
	}
	if a.Deadline.Duration < time.Millisecond || a.Deadline.Duration > longestDeadline {
		say("deadline: %s, want 1ms to %s", a.Deadline.Duration, longestDeadline)
	}
	if a.Failures < 1 || a.Failures > mostFailures {
		say("failures: %d, want 1 to %d", a.Failures, mostFailures)
	}
	if a.Backoff.Duration < 10*time.Millisecond || a.Backoff.Duration > longestBackoff {
		say("backoff: %s, want 10ms to %s", a.Backoff.Duration, longestBackoff)
	}
	if a.MaxBackoff.Duration < a.Backoff.Duration || a.MaxBackoff.Duration > longestBackoff {
		say("maxBackoff: %s, want backoff (%s) to %s", a.MaxBackoff.Duration, a.Backoff.Duration, longestBackoff)
	}
	return errors.Join(wrong...)
}

// checkURL refuses what would carry pods over a network in the open.
func checkURL(text string) error {
	address, err := url.Parse(text)
	if err != nil {
		return err
	}
	switch {
	case address.Scheme != "http" && address.Scheme != "https", address.Host == "":
		return fmt.Errorf("%q, want https://host:port", text)
	case address.User != nil:
		return errors.New("holds a user or password; want them in tokenFile")
	case address.RawQuery != "" || address.Fragment != "" || strings.Trim(address.Path, "/") != "":
		return fmt.Errorf("%q, want no path behind the port", text)
	case address.Scheme == "http" && !isLoopback(address.Hostname()):
		return fmt.Errorf("%q leaves this machine in the open; want https", text)
	}
	return nil
}

func isLoopback(host string) bool {
	address := net.ParseIP(host)
	return address != nil && address.IsLoopback()
}
