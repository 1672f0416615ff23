// IDs in Go, with redigo (go get github.com/gomodule/redigo). An int64 holds every ID.
package main

import (
	"fmt"
	"os"

	"github.com/gomodule/redigo/redis"
)

func main() {
	port := os.Getenv("GETID_PORT")
	if port == "" {
		port = "7890"
	}
	ids, err := redis.Dial("tcp", "127.0.0.1:"+port)
	check(err)
	defer ids.Close()

	orderID, err := redis.Int64(ids.Do("GETID"))
	check(err)
	lineIDs, err := redis.Int64s(ids.Do("MGETID", 3))
	check(err)
	for i := 0; i < 1000; i++ {
		check(ids.Send("GETID"))
	}
	many, err := redis.Int64s(ids.Do(""))
	check(err)

	fmt.Println(orderID)
	fmt.Println(lineIDs)
	different, ascending := map[int64]bool{}, true
	for i, id := range many {
		different[id] = true
		ascending = ascending && (i == 0 || id > many[i-1])
	}
	fmt.Printf("%d different IDs, ascending: %t\n", len(different), ascending)
}

func check(err error) {
	if err != nil {
		panic(err)
	}
}
