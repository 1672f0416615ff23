package getid

import (
	"errors"
	"fmt"
	"reflect"
	"strings"
	"testing"
)

func TestURLs(t *testing.T) {
	for url, want := range map[string]target{
		"getid://h":                           {addresses: []address{{"h", "7890"}}},
		"getid://h/":                          {addresses: []address{{"h", "7890"}}},
		"getids://h:1":                        {addresses: []address{{"h", "1"}}, isTLS: true},
		"getid://[::1]:2,[::2],c?order=given": {addresses: []address{{"::1", "2"}, {"::2", "7890"}, {"c", "7890"}}},
		"getid://u:p@h":                       {addresses: []address{{"h", "7890"}}, login: []string{"u", "p"}},
		"getid://:p%40%3a%25@h":               {addresses: []address{{"h", "7890"}}, login: []string{"p@:%"}},
		"getid+unix:///run/a%20b.sock":        {addresses: []address{{"/run/a b.sock", ""}}},
		"getid+unix://u:p@/run/s":             {addresses: []address{{"/run/s", ""}}, login: []string{"u", "p"}},
	} {
		if got, err := parseURL(url); err != nil || !reflect.DeepEqual(*got, want) {
			t.Errorf("%s is %+v, error %v", url, got, err)
		}
	}
	if text := (address{"::1", "2"}).String(); text != "[::1]:2" {
		t.Error(text)
	}
}

func TestWrongURLsShowNoPassword(t *testing.T) {
	for url, want := range map[string]string{
		"h:1":                     `scheme of the url is ""`,
		"redis://h":               `scheme of the url is "redis"`,
		"getid://":                "host 1 of the url is empty",
		"getid://a,,b":            "host 2 of the url is empty",
		"getid://h:0":             "port that is not 1 to 65535",
		"getid://h:65536":         "port that is not 1 to 65535",
		"getid://u:secret":        "port that is not 1 to 65535",
		"getid://::1":             "host 1 of the url is empty",
		"getid://[::1":            "no IPv6 address",
		"getid://[::1]x":          "no IPv6 address",
		"getid://h?pool=1":        `unknown option "pool", must be 'order=given'`,
		"getid://h?order=x":       "must be 'order=given'",
		"getid://u:secret?x@h":    "write '%3F' for '?'",
		"getid://secret@h":        "user without a password",
		"getid://u:secret%4@h":    "write '%25' for '%'",
		"getid+unix://run/secret": "not absolute",
		"getid://" + strings.Repeat("h,", 64) + "h":   "has 65 hosts, must have at most 64",
		"getid://" + strings.Repeat("h", urlBytesMax): fmt.Sprintf("at most %d", urlBytesMax),
	} {
		_, err := parseURL(url)
		if !errors.Is(err, ErrUsage) || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "secret") {
			t.Errorf("%.60s is %v, must have %q", url, err, want)
		}
	}
}

func TestHostsAreShuffled(t *testing.T) {
	for i := 0; i < 10_000; i++ {
		if found, err := parseURL("getid://a,b"); err != nil {
			t.Fatal(err)
		} else if found.addresses[0].host == "b" {
			return
		}
	}
	t.Fatal("the first host is always the first")
}
