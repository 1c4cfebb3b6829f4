// One process that is measured: told by lines on its standard input, answering by lines, as lab/src/clients/process.rs says.
//
//	peers rlock-client | redsync | rueidislock URL
//
// A build of main.go and one file of a contender is that contender alone.
package main

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

const lease = 30 * time.Second

// ways has the contenders. Everything but the lease, and to wait as long as it takes, is as each library has it.
var ways = map[string]func(url string) (way, error){}

// way acquires a lock, as long as it takes; the function that it returns releases the lock.
type way func(ctx context.Context, key string) (func() error, error)

func main() {
	open, known := ways[os.Args[1]]
	if !known {
		fail(fmt.Errorf("no such contender: %s", os.Args[1]))
	}
	acquire, err := open(os.Args[2])
	fail(err)
	input := bufio.NewScanner(os.Stdin)
	var release func()
	var waiting *crowd
	for input.Scan() {
		var work, key string
		var count int
		_, err := fmt.Sscan(input.Text(), &work, &count, &key)
		fail(err)
		switch work {
		case "pairs":
			pairs(acquire, count, key)
		case "take":
			release = acquire.take(key)
			fmt.Println(now(), 0)
		case "give":
			released := now()
			release()
			fmt.Println(released, 0)
		case "wait":
			waiting = gather(acquire, count, key)
			fmt.Println(0, 0)
		case "open":
			waiting.open()
		default:
			fail(fmt.Errorf("no such work: %s", work))
		}
	}
}

func fail(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// take acquires; the function releases.
func (acquire way) take(key string) func() {
	release, err := acquire(context.Background(), key)
	fail(err)
	return func() { fail(release()) }
}

func pairs(acquire way, count int, key string) {
	wall, used := now(), cpu()
	for range count {
		acquire.take(key)()
	}
	fmt.Println(now()-wall, cpu()-used)
}

type turn struct {
	number             int
	acquired, released int64
}

// crowd has waiters for a lock that is held.
type crowd struct {
	mutex   sync.Mutex
	order   []turn
	waiters sync.WaitGroup
	release func()
}

func gather(acquire way, count int, key string) *crowd {
	crowd := &crowd{release: acquire.take(key)}
	for number := range count {
		crowd.waiters.Go(func() {
			release := acquire.take(key)
			acquired := now()
			time.Sleep(time.Millisecond)
			crowd.mutex.Lock()
			crowd.order = append(crowd.order, turn{number, acquired, now()})
			crowd.mutex.Unlock()
			release()
		})
		time.Sleep(time.Millisecond)
	}
	time.Sleep(300 * time.Millisecond)
	return crowd
}

// open lets each have the lock once.
func (crowd *crowd) open() {
	fmt.Println(0, now())
	crowd.release()
	crowd.waiters.Wait()
	most := 0
	for place, one := range crowd.order {
		overtaken := 0
		for _, other := range crowd.order[:place] {
			if other.number > one.number {
				overtaken++
			}
		}
		most = max(most, overtaken)
		fmt.Println(one.acquired, one.released)
	}
	fmt.Println(most, 0)
}

// start is an instant of the clock that all processes share, and the same of this process's.
var start, begun = monotonic(), time.Now()

// now is the time in ns by the clock that all processes share.
func now() int64 { return start + int64(time.Since(begun)) }

// cpu is the CPU time of this process in ns, user and system.
func cpu() int64 {
	var usage syscall.Rusage
	fail(syscall.Getrusage(syscall.RUSAGE_SELF, &usage))
	return usage.Utime.Nano() + usage.Stime.Nano()
}

// monotonic is the time of the clock that all processes share, in ns.
func monotonic() int64 {
	var time unix.Timespec
	fail(unix.ClockGettime(unix.CLOCK_MONOTONIC, &time))
	return time.Nano()
}
