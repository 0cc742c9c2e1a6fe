package score

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net/http"
)

// reason is why the other plugins decide; a label of the metric, so there are few.
type reason string

const (
	circuitIsOpen reason = "circuit-open" // failures in a row: not asked
	unreachable   reason = "unreachable"  // no connection, or it broke
	late          reason = "deadline"     // no answer in time
	untrusted     reason = "tls"          // its certificate, or ours, is not accepted
	refused       reason = "refused"      // it says that the request is wrong (4xx)
	failing       reason = "status"       // it says that it cannot (5xx, busy), or an answer that is none of ours
	tooLarge      reason = "too-large"    // more bytes than a right answer can have
	malformed     reason = "malformed"    // not JSON, or not an answer
	wrongPod      reason = "wrong-pod"    // for another pod
	wrongNodes    reason = "wrong-nodes"  // for other candidates: too few or too many
	wrongScore    reason = "wrong-score"  // not a whole number from 0 to 100, or without a best one
	stopped       reason = "cancelled"    // kube-scheduler gave up the pod meanwhile
	panicked      reason = "panic"        // an error in the plugin itself
)

var reasons = []reason{
	circuitIsOpen, unreachable, late, untrusted, refused, failing, tooLarge, malformed, wrongPod, wrongNodes,
	wrongScore, stopped, panicked,
}

// fallback is an error with its reason.
type fallback struct {
	reason reason
	err    error
}

func (f *fallback) Error() string { return fmt.Sprintf("%s: %v", f.reason, f.err) }
func (f *fallback) Unwrap() error { return f.err }

func because(why reason, format string, values ...any) *fallback {
	return &fallback{why, fmt.Errorf(format, values...)}
}

// blamesService says whether the service is to be left alone for it: a request that it refuses in time does no harm.
func (f *fallback) blamesService() bool {
	switch f.reason {
	case circuitIsOpen, refused, stopped, panicked:
		return false
	default:
		return true
	}
}

// transportFailure finds the reason of a request that got no answer.
func transportFailure(ctx context.Context, err error) *fallback {
	var (
		verification *tls.CertificateVerificationError
		alert        tls.AlertError
		record       tls.RecordHeaderError
		authority    x509.UnknownAuthorityError
	)
	switch {
	case errors.Is(ctx.Err(), context.DeadlineExceeded), errors.Is(err, context.DeadlineExceeded):
		return &fallback{late, err}
	case errors.Is(ctx.Err(), context.Canceled):
		return &fallback{stopped, err}
	case errors.As(err, &verification), errors.As(err, &alert), errors.As(err, &record), errors.As(err, &authority), errors.Is(err, http.ErrSchemeMismatch):
		return &fallback{untrusted, err}
	default:
		return &fallback{unreachable, err}
	}
}
