// One process of clients that lock by concurrency.Mutex: told by lines on its standard input, answering by lines, as
// lab/src/systems/worker.rs says.
//
//	worker ENDPOINT[,ENDPOINT]... TTL
package main

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.etcd.io/etcd/client/v3/concurrency"
	"go.uber.org/zap"
	"golang.org/x/sys/unix"
)

func main() {
	ttl := number(os.Args[2])
	client, err := clientv3.New(clientv3.Config{
		Endpoints:   strings.Split(os.Args[1], ","),
		DialTimeout: 10 * time.Second,
		Logger:      zap.NewNop(),
	})
	check(err)
	var crowd *crowd
	var own *concurrency.Session
	session := func() *concurrency.Session {
		if own == nil {
			own = newSession(client, ttl)
		}
		return own
	}
	lines := bufio.NewScanner(os.Stdin)
	for lines.Scan() {
		words := strings.Split(lines.Text(), " ")
		switch words[0] {
		case "pairs":
			pairs(session(), number(words[1]), words[2])
		case "hold":
			check(concurrency.NewMutex(session(), words[1]).Lock(context.Background()))
			fmt.Println(clock(), 0)
		case "wait":
			crowd = newCrowd(client, ttl, number(words[1]), words[2])
			fmt.Println(0, 0)
		case "hand-off":
			for _, one := range crowd.handOff(number(words[1])) {
				fmt.Println(one[0], one[1])
			}
		case "leave":
			crowd.leave()
			fmt.Println(0, 0)
		default:
			check(fmt.Errorf("no such work: %s", lines.Text()))
		}
	}
}

func newSession(client *clientv3.Client, ttl int) *concurrency.Session {
	session, err := concurrency.NewSession(client, concurrency.WithTTL(ttl))
	check(err)
	return session
}

func pairs(session *concurrency.Session, count int, key string) {
	mutex := concurrency.NewMutex(session, key)
	begin := clock()
	for range count {
		check(mutex.Lock(context.Background()))
		check(mutex.Unlock(context.Background()))
	}
	fmt.Println(clock()-begin, 0)
}

// Nanoseconds by a clock that all processes share.
func clock() int64 {
	var time unix.Timespec
	check(unix.ClockGettime(unix.CLOCK_MONOTONIC, &time))
	return time.Nano()
}

func number(word string) int {
	value, err := strconv.Atoi(word)
	check(err)
	return value
}

func check(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}
