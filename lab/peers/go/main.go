// One process that is measured: told by lines on its standard input, answering by lines, as lab/src/clients/process.rs says.
//
//	peers rlock-client | redsync URL
package main

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"strings"
	"sync"
	"syscall"
	"time"
)

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
	for input.Scan() {
		var work, key string
		var count int
		_, err := fmt.Sscan(input.Text(), &work, &count, &key)
		fail(err)
		switch work {
		case "pairs":
			pairs(acquire, count, key)
		case "turns":
			turns(acquire, count, key)
		case "crowd":
			crowd(acquire, count, key)
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

func turns(acquire way, count int, key string) {
	var times strings.Builder
	for range count {
		release := acquire.take(key)
		acquired := now()
		time.Sleep(time.Millisecond)
		fmt.Fprintln(&times, acquired, now())
		release()
	}
	fmt.Print(times.String())
}

type turn struct {
	number int
	at     int64
}

func crowd(acquire way, count int, key string) {
	var mutex sync.Mutex
	var order []turn
	var waiters sync.WaitGroup
	first := acquire.take(key)
	for number := range count {
		waiters.Go(func() {
			release := acquire.take(key)
			mutex.Lock()
			order = append(order, turn{number, now()})
			mutex.Unlock()
			time.Sleep(time.Millisecond)
			release()
		})
		time.Sleep(time.Millisecond)
	}
	time.Sleep(300 * time.Millisecond)
	opened := now()
	first()
	waiters.Wait()
	most := 0
	for place, one := range order {
		overtaken := 0
		for _, other := range order[:place] {
			if other.number > one.number {
				overtaken++
			}
		}
		most = max(most, overtaken)
	}
	fmt.Println(order[count-1].at-opened, most)
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
