// redigo with Sentinels: `sentinel draw NAME` or `sentinel find NAME...`. See tests/fleet/sentinel.rs.
//
// redigo has no Sentinel mode: its users ask the Sentinels in the pool's Dial.
package main

import (
	"errors"
	"fmt"
	"net"
	"os"
	"strings"
	"time"

	"github.com/gomodule/redigo/redis"
)

var sentinels = strings.Split(os.Getenv("SENTINELS"), ",")

const timeout = time.Second

func dial(address string) (redis.Conn, error) {
	return redis.Dial("tcp", address, redis.DialConnectTimeout(timeout), redis.DialReadTimeout(timeout))
}

// master asks the Sentinels in turn for the master's address.
func master(name string) (string, error) {
	for _, sentinel := range sentinels {
		connection, err := dial(sentinel)
		if err != nil {
			continue
		}
		address, err := redis.Strings(connection.Do("SENTINEL", "get-master-addr-by-name", name))
		connection.Close()
		if err == nil && len(address) == 2 {
			return net.JoinHostPort(address[0], address[1]), nil
		}
	}
	return "", errors.New("no Sentinel knows the master")
}

func pool(name string) *redis.Pool {
	return &redis.Pool{
		MaxIdle: 1,
		Dial: func() (redis.Conn, error) {
			address, err := master(name)
			if err != nil {
				return nil, err
			}
			return dial(address)
		},
	}
}

func main() {
	mode, names := os.Args[1], os.Args[2:]
	for _, name := range names {
		pool := pool(name)
		for {
			connection := pool.Get()
			if id, err := redis.Int64(connection.Do("GETID")); err == nil {
				fmt.Println("id", name, id)
			} else {
				fmt.Println("error", err)
			}
			connection.Close()
			if mode == "find" {
				break
			}
			time.Sleep(20 * time.Millisecond)
		}
	}
}
