package main

import (
	"context"
	"errors"
	"sync"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.etcd.io/etcd/client/v3/concurrency"
)

// crowd has clients that wait for one lock while one of them holds it, each with a session: the identity of a Mutex is its session.
type crowd struct {
	mutex    sync.Mutex
	changed  *sync.Cond
	allowed  int
	holder   bool
	leaving  bool
	released int64
	handOffs [][2]int64
	gone     sync.WaitGroup
	waits    context.Context
	end      context.CancelFunc
}

// newCrowd returns when one client holds the lock and the others wait for it.
func newCrowd(client *clientv3.Client, ttl int, waiters int, key string) *crowd {
	crowd := &crowd{}
	crowd.changed = sync.NewCond(&crowd.mutex)
	crowd.waits, crowd.end = context.WithCancel(context.Background())
	crowd.gone.Add(waiters + 1)
	go crowd.client(client, ttl, key)
	crowd.until(func() bool { return crowd.holder })
	for range waiters {
		go crowd.client(client, ttl, key)
	}
	for {
		keys, err := client.Get(context.Background(), key+"/", clientv3.WithPrefix(), clientv3.WithCountOnly())
		check(err)
		if keys.Count == int64(waiters)+1 {
			return crowd
		}
		time.Sleep(10 * time.Millisecond)
	}
}

func (crowd *crowd) client(client *clientv3.Client, ttl int, key string) {
	defer crowd.gone.Done()
	session := newSession(client, ttl)
	defer session.Close()
	mutex := concurrency.NewMutex(session, key)
	for {
		if err := mutex.Lock(crowd.waits); err != nil {
			if crowd.waits.Err() == nil {
				check(err)
			}
			return
		}
		leaving := crowd.hold(clock())
		check(mutex.Unlock(context.Background()))
		if leaving {
			return
		}
	}
}

// hold keeps the lock for a millisecond and until it may be released.
func (crowd *crowd) hold(acquired int64) bool {
	crowd.mutex.Lock()
	defer crowd.mutex.Unlock()
	if crowd.holder {
		check(errors.New("two hold the lock at a time"))
	}
	crowd.holder = true
	if crowd.released != 0 {
		crowd.handOffs = append(crowd.handOffs, [2]int64{crowd.released, acquired})
	}
	crowd.changed.Broadcast()
	crowd.mutex.Unlock()
	time.Sleep(time.Millisecond)
	crowd.mutex.Lock()
	for crowd.allowed == 0 && !crowd.leaving {
		crowd.changed.Wait()
	}
	crowd.allowed--
	crowd.holder = false
	crowd.released = clock()
	return crowd.leaving
}

// handOff lets the lock change hands, and returns when each release and the acquisition after it happened.
func (crowd *crowd) handOff(count int) [][2]int64 {
	crowd.mutex.Lock()
	crowd.handOffs = nil
	crowd.allowed = count
	crowd.changed.Broadcast()
	crowd.mutex.Unlock()
	crowd.until(func() bool { return len(crowd.handOffs) == count })
	time.Sleep(20 * time.Millisecond)
	return crowd.handOffs
}

func (crowd *crowd) leave() {
	crowd.end()
	crowd.mutex.Lock()
	crowd.leaving = true
	crowd.changed.Broadcast()
	crowd.mutex.Unlock()
	crowd.gone.Wait()
}

func (crowd *crowd) until(holds func() bool) {
	crowd.mutex.Lock()
	defer crowd.mutex.Unlock()
	for !holds() {
		crowd.changed.Wait()
	}
}
