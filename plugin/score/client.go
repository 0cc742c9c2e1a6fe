package score

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"net"
	"net/http"
	"time"

	"k8s.io/client-go/transport"
)

const (
	scorePath      = "/v1/score"
	maxHeaderBytes = 16 << 10
	maxErrorBytes  = 1 << 20  // of an answer that lists nodes to send again
	bufferBytes    = 64 << 10 // a request in pieces wakes the service once for each
	idleTimeout    = 60 * time.Second
)

// client is the way to the service. A way alone follows no redirect: nobody else is asked.
type client struct {
	way     http.RoundTripper
	address string
}

// newClient reads certificates and tokens, so that what is wrong with them is said at the start.
func newClient(args Args) (*client, error) {
	dialer := &net.Dialer{Timeout: args.Deadline.Duration}
	base := &http.Transport{
		DialContext:            dialer.DialContext,
		DisableCompression:     true, // an answer has the size that was sent
		MaxIdleConnsPerHost:    1,    // there is one request at a time
		IdleConnTimeout:        idleTimeout,
		MaxResponseHeaderBytes: maxHeaderBytes,
		WriteBufferSize:        bufferBytes,
		// No proxy: what is asked about pods stays between the two.
	}
	address := args.URL
	if args.Socket != "" {
		address = "http://localhost"
		base.DialContext = func(ctx context.Context, _, _ string) (net.Conn, error) {
			return dialer.DialContext(ctx, "unix", args.Socket)
		}
	}
	var err error
	base.TLSClientConfig, err = transport.TLSConfigFor(&transport.Config{TLS: transport.TLSConfig{
		CAFile: args.CAFile, ServerName: args.ServerName, CertFile: args.CertFile, KeyFile: args.KeyFile,
		ReloadTLSFiles: args.CertFile != "",
	}})
	if err != nil {
		return nil, err
	}
	var way http.RoundTripper = base
	if args.TokenFile != "" {
		if way, err = transport.NewBearerAuthWithRefreshRoundTripper("", args.TokenFile, base); err != nil {
			return nil, err
		}
	}
	return &client{way, address + scorePath}, nil
}

// ask sends a request. Without an answer and without a problem the service has forgotten nodes (status 409).
func (c *client) ask(ctx context.Context, body []byte, most int64) ([]byte, *fallback) {
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, c.address, bytes.NewReader(body))
	if err != nil {
		return nil, &fallback{panicked, err}
	}
	request.Header.Set("Content-Type", "application/json")
	// Scoring changes nothing: a connection that the service has just closed is no reason to fall back. Not sent.
	request.Header["Idempotency-Key"] = nil
	response, err := c.way.RoundTrip(request)
	if err != nil {
		return nil, transportFailure(ctx, err)
	}
	defer response.Body.Close()
	if response.StatusCode != http.StatusOK {
		most = maxErrorBytes
	}
	answer, err := io.ReadAll(io.LimitReader(response.Body, most+1))
	switch {
	case err != nil:
		return nil, transportFailure(ctx, err)
	case int64(len(answer)) > most:
		return nil, because(tooLarge, "more than %d bytes", most)
	case response.StatusCode == http.StatusOK:
		return answer, nil
	}
	return nil, refusal(response.StatusCode, answer)
}

// refusal reads an answer that has no scores. There is no problem where the service is to be told again.
func refusal(status int, body []byte) *fallback {
	var said struct {
		Reason  string `json:"reason"`
		Message string `json:"message"`
	}
	if err := json.Unmarshal(body, &said); err != nil || said.Reason == "" {
		return because(failing, "status %d without a reason", status)
	}
	switch status {
	case http.StatusConflict:
		return nil
	case http.StatusBadRequest, http.StatusNotFound, http.StatusRequestEntityTooLarge, http.StatusUnprocessableEntity:
		return because(refused, "status %d, %.60s: %.300s", status, said.Reason, said.Message)
	case http.StatusRequestTimeout:
		return because(late, "status %d, %.60s: %.300s", status, said.Reason, said.Message)
	}
	return because(failing, "status %d, %.60s: %.300s", status, said.Reason, said.Message)
}
