package getid

import (
	"math/rand"
	"net/url"
	"os"
	"strconv"
	"strings"
	"time"
)

const (
	defaultPort  = "7890"
	urlBytesMax  = 16_384
	hostsMax     = 64
	nameBytesMax = 128
)

// address is one server: a host and a port, or the path of a Unix socket in host.
type address struct{ host, port string }

func (a address) isSocket() bool { return a.port == "" }

func (a address) String() string {
	switch {
	case a.isSocket():
		return a.host
	case strings.Contains(a.host, ":"):
		return "[" + a.host + "]:" + a.port
	}
	return a.host + ":" + a.port
}

// target is all that a URL has: the addresses in the order of use, the arguments of AUTH, and whether TLS is used.
type target struct {
	addresses []address
	login     []string
	isTLS     bool
}

// parseURL reads a URL, else GETID_URL, else the address of a local server. Its errors show no part of the URL that may
// have a password.
func parseURL(text string) (*target, error) {
	if text == "" {
		text = os.Getenv("GETID_URL")
	}
	if text == "" {
		text = "getid://127.0.0.1:" + defaultPort
	}
	if len(text) > urlBytesMax {
		return nil, usageError("the url has %d bytes, must have at most %d", len(text), urlBytesMax)
	}
	scheme, rest, isFound := strings.Cut(text, "://")
	if !isFound || (scheme != "getid" && scheme != "getids" && scheme != "getid+unix") {
		if !isFound {
			scheme = ""
		}
		return nil, usageError("the scheme of the url is %q, must be getid, getids or getid+unix", scheme)
	}
	rest, query, _ := strings.Cut(rest, "?")
	isGiven, err := parseOrder(query)
	if err != nil {
		return nil, err
	}
	found := &target{isTLS: scheme == "getids"}
	if at := strings.LastIndexByte(rest, '@'); at >= 0 {
		if found.login, err = parseLogin(rest[:at]); err != nil {
			return nil, err
		}
		rest = rest[at+1:]
	}
	if scheme == "getid+unix" {
		found.addresses, err = parseSocket(rest)
	} else {
		found.addresses, err = parseHosts(rest)
	}
	if err == nil && !isGiven {
		shuffle := rand.New(rand.NewSource(time.Now().UnixNano()))
		shuffle.Shuffle(len(found.addresses), func(i, j int) {
			found.addresses[i], found.addresses[j] = found.addresses[j], found.addresses[i]
		})
	}
	return found, err
}

func parseOrder(query string) (isGiven bool, err error) {
	for _, option := range strings.Split(query, "&") {
		switch name, _, _ := strings.Cut(option, "="); {
		case option == "":
		case option == "order=given":
			isGiven = true
		case name == "order":
			return false, usageError("option order of the url has an unknown value, must be 'order=given'")
		case strings.Contains(query, "@"):
			return false, usageError("the url has a '?' before the '@': write '%%3F' for '?' in a login")
		default:
			return false, usageError("the url has the unknown option %q, must be 'order=given'", name)
		}
	}
	return isGiven, nil
}

func parseLogin(text string) ([]string, error) {
	user, password, isFound := strings.Cut(text, ":")
	if !isFound {
		return nil, usageError("the url has a user without a password, must be 'getid://user:password@host'")
	}
	login := []string{user, password}
	for i, part := range []string{"user", "password"} {
		decoded, err := url.PathUnescape(login[i])
		if err != nil {
			return nil, usageError("the %s in the url has a '%%' without two hex digits: write '%%25' for '%%'", part)
		}
		login[i] = decoded
	}
	if user == "" {
		login = login[1:]
	}
	return login, nil
}

func parseSocket(text string) ([]address, error) {
	path, err := url.PathUnescape(text)
	if err != nil || !strings.HasPrefix(path, "/") {
		return nil, usageError("the path of the url is not absolute, must be as in 'getid+unix:///run/getid.sock'")
	}
	return []address{{host: path}}, nil
}

func parseHosts(text string) ([]address, error) {
	names := strings.Split(strings.TrimSuffix(text, "/"), ",")
	if len(names) > hostsMax {
		return nil, usageError("the url has %d hosts, must have at most %d", len(names), hostsMax)
	}
	addresses := make([]address, 0, len(names))
	for i, name := range names {
		found, problem := parseHost(name)
		if problem != "" {
			return nil, usageError("host %d of the url %s, must be as in 'getid://127.0.0.1:7890,[::1]:7890'", i+1, problem)
		}
		addresses = append(addresses, found)
	}
	return addresses, nil
}

// parseHost reads host[:port]. Its problem does not show the text: without an '@' a password may be in it.
func parseHost(text string) (found address, problem string) {
	host, port, hasPort := strings.Cut(text, ":")
	if strings.HasPrefix(text, "[") {
		inner, after, isClosed := strings.Cut(text[1:], "]")
		if !isClosed || (after != "" && after[0] != ':') {
			return found, "is no IPv6 address in brackets"
		}
		host, port, hasPort = inner, strings.TrimPrefix(after, ":"), after != ""
	}
	if host == "" {
		return found, "is empty"
	}
	if !hasPort || port == "" {
		return address{host, defaultPort}, ""
	}
	number, err := strconv.ParseUint(port, 10, 16)
	if err != nil || number == 0 {
		return found, "has a port that is not 1 to 65535"
	}
	return address{host, strconv.FormatUint(number, 10)}, ""
}
