package getid

import (
	"bufio"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"strconv"
	"strings"
	"sync"
	"time"
)

const (
	connectTimeout = time.Second
	replyTimeout   = 6 * time.Second

	lineBytesMax   = 64 << 10
	bulkBytesMax   = 1 << 20
	arrayLengthMax = 1_000_000
	depthMax       = 4
	// replyBytesMax is the largest reply. Replies to this client have at most five short parts.
	replyBytesMax = 16 << 20
)

// A reply is a status, *serverError, int64, []byte, nil or []any.
type status string

// serverError is an error that a server returned as its reply.
type serverError struct{ text string }

func (e *serverError) code() string {
	code, _, _ := strings.Cut(e.text, " ")
	return code
}

// isFull reports whether the server has no room for another connection.
func (e *serverError) isFull() bool {
	return strings.HasPrefix(e.text, "ERR max number of clients reached")
}

// lostError reports that a connection was closed, and why. With isConnect no request had been sent on it.
type lostError struct {
	reason    string
	isConnect bool
}

func (e *lostError) Error() string { return e.reason }

// loginError is an error that a server returned to AUTH.
type loginError struct{ *serverError }

func (e *loginError) Error() string { return e.text }

var errForm = errors.New("unexpected reply")

// connection is one connection to a server, closed on any doubt. One goroutine uses it; abort may come from any.
type connection struct {
	address address
	target  *target
	tls     *tls.Config
	stream  net.Conn
	reader  *bufio.Reader
	left    int // bytes that the reply may still have

	mu        sync.Mutex
	raw       net.Conn
	cancel    context.CancelFunc
	isAborted bool
}

// connect connects and logs in, within the time of ctx and at most connectTimeout.
func (n *connection) connect(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, connectTimeout)
	defer cancel()
	n.mu.Lock()
	n.cancel = cancel
	if n.isAborted {
		cancel()
	}
	n.mu.Unlock()
	err := n.open(ctx)
	var refused *loginError
	if err == nil && len(n.target.login) > 0 {
		err = n.login()
	}
	if err == nil || errors.As(err, &refused) {
		return err
	}
	n.abort()
	return &lostError{fmt.Sprintf("connect to %v: %s", n.address, reasonOf(err)), true}
}

func (n *connection) open(ctx context.Context) error {
	var dialer net.Dialer // keep-alive and no delay are its defaults
	network, place := "tcp", net.JoinHostPort(n.address.host, n.address.port)
	if n.address.isSocket() {
		network, place = "unix", n.address.host
	}
	raw, err := dialer.DialContext(ctx, network, place)
	if err != nil {
		return err
	}
	n.mu.Lock()
	n.raw = raw
	isAborted := n.isAborted
	n.mu.Unlock()
	if isAborted {
		raw.Close()
		return net.ErrClosed
	}
	deadline, _ := ctx.Deadline()
	raw.SetDeadline(deadline)
	n.stream = raw
	if n.target.isTLS {
		secured := tls.Client(raw, n.tlsConfig())
		if err := secured.HandshakeContext(ctx); err != nil {
			return err
		}
		n.stream = secured
	}
	n.reader = bufio.NewReader(n.stream)
	return nil
}

func (n *connection) tlsConfig() *tls.Config {
	config := &tls.Config{}
	if n.tls != nil {
		config = n.tls.Clone()
	}
	if config.ServerName == "" {
		config.ServerName = n.address.host
	}
	return config
}

func (n *connection) login() error {
	reply, err := n.exchange(append([]string{"AUTH"}, n.target.login...))
	if err != nil {
		return err
	}
	if refusal, isError := reply.(*serverError); isError {
		n.abort()
		return &loginError{refusal}
	}
	if reply != status("OK") {
		return errForm
	}
	return nil
}

// request sends a request and returns its reply, within limit. After any failure the connection is closed.
func (n *connection) request(arguments []string, limit time.Duration) (any, error) {
	if !n.isOpen() {
		return nil, &lostError{n.address.String() + ": the connection is closed", false}
	}
	n.stream.SetDeadline(time.Now().Add(limit))
	reply, err := n.exchange(arguments)
	if err != nil {
		n.abort()
		return nil, &lostError{fmt.Sprintf("%v: %s", n.address, reasonOf(err)), false}
	}
	return reply, nil
}

// abort closes the connection, and ends what is under way. It sends no byte, also with TLS.
func (n *connection) abort() {
	n.mu.Lock()
	raw := n.raw
	n.isAborted = true
	if n.cancel != nil {
		n.cancel()
	}
	n.mu.Unlock()
	if raw != nil {
		raw.Close()
	}
}

func (n *connection) isOpen() bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.raw != nil && !n.isAborted
}

func (n *connection) exchange(arguments []string) (any, error) {
	if n.reader.Buffered() > 0 {
		return nil, fmt.Errorf("%w: bytes before the request", errForm)
	}
	if _, err := n.stream.Write(encode(arguments)); err != nil {
		return nil, err
	}
	n.left = replyBytesMax
	reply, err := n.readReply(depthMax)
	if err == nil && n.reader.Buffered() > 0 {
		return nil, fmt.Errorf("%w: bytes behind it", errForm)
	}
	return reply, err
}

func (n *connection) readReply(depth int) (any, error) {
	line, err := n.readLine()
	if err != nil {
		return nil, err
	}
	if line == "" {
		return nil, fmt.Errorf("%w: an empty line", errForm)
	}
	rest := line[1:]
	switch line[0] {
	case '+':
		return status(rest), nil
	case '-':
		return &serverError{rest}, nil
	case ':':
		return parseInteger(rest, -1<<63, 1<<63-1)
	case '$':
		size, err := parseInteger(rest, -1, bulkBytesMax)
		if err != nil || size < 0 {
			return nil, err
		}
		return n.readBulk(int(size))
	case '*':
		return n.readArray(rest, depth)
	}
	return nil, fmt.Errorf("%w: type %q", errForm, line[:1])
}

func (n *connection) readArray(length string, depth int) (any, error) {
	size, err := parseInteger(length, -1, arrayLengthMax)
	if err != nil || size < 0 {
		return nil, err
	}
	if depth == 0 {
		return nil, fmt.Errorf("%w: arrays nested deeper than %d", errForm, depthMax)
	}
	parts := []any{}
	for i := int64(0); i < size; i++ {
		part, err := n.readReply(depth - 1)
		if err != nil {
			return nil, err
		}
		parts = append(parts, part)
	}
	return parts, nil
}

func (n *connection) readLine() (string, error) {
	var line []byte
	for {
		piece, err := n.reader.ReadSlice('\n')
		line = append(line, piece...)
		n.left -= len(piece)
		if len(line) > lineBytesMax || n.left < 0 {
			return "", fmt.Errorf("%w: a line of more than %d bytes, or a reply of more than %d", errForm, lineBytesMax,
				replyBytesMax)
		}
		if err == bufio.ErrBufferFull {
			continue
		}
		if err != nil {
			return "", err
		}
		if len(line) < 2 || line[len(line)-2] != '\r' {
			return "", fmt.Errorf("%w: a line without CRLF at its end", errForm)
		}
		return string(line[:len(line)-2]), nil
	}
}

func (n *connection) readBulk(size int) (any, error) {
	if n.left -= size + 2; n.left < 0 {
		return nil, fmt.Errorf("%w: more than %d bytes", errForm, replyBytesMax)
	}
	bulk := make([]byte, size+2)
	if _, err := io.ReadFull(n.reader, bulk); err != nil {
		return nil, err
	}
	if string(bulk[size:]) != "\r\n" {
		return nil, fmt.Errorf("%w: a bulk string without CRLF at its end", errForm)
	}
	return bulk[:size], nil
}

func parseInteger(text string, low, high int64) (int64, error) {
	number, err := strconv.ParseInt(text, 10, 64)
	if err != nil || text[0] == '+' || number < low || number > high {
		return 0, fmt.Errorf("%w: %.32q is no integer from %d to %d", errForm, text, low, high)
	}
	return number, nil
}

// encode returns a request: an array of bulk strings.
func encode(arguments []string) []byte {
	request := append([]byte{'*'}, strconv.Itoa(len(arguments))...)
	for _, argument := range arguments {
		request = append(request, "\r\n$"...)
		request = strconv.AppendInt(request, int64(len(argument)), 10)
		request = append(append(request, "\r\n"...), argument...)
	}
	return append(request, "\r\n"...)
}

func reasonOf(err error) string {
	switch {
	case errors.Is(err, os.ErrDeadlineExceeded), errors.Is(err, context.DeadlineExceeded):
		return "no reply within the time-out"
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
		return "the server closed the connection"
	case errors.Is(err, context.Canceled), errors.Is(err, net.ErrClosed):
		return "the client closed the connection"
	}
	return err.Error()
}
