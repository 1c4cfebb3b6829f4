package rlock

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"math/big"
	"net"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
)

func TestPermissions(t *testing.T) {
	ctx, s := within(t, 30*time.Second), startServer(t, "--requirepass", "secret")
	_ = s.Client.Close()
	s.Client = redis.NewClient(&redis.Options{Addr: fmt.Sprintf("127.0.0.1:%d", s.port), Password: "secret", Protocol: 2})
	for _, login := range []string{"", ":wrong@", "nobody:x@"} {
		_, err := Connect(ctx, fmt.Sprintf("redis://%s127.0.0.1:%d", login, s.port), Options{})
		wantError(t, err, ErrPermission)
	}
	s.do(t, "ACL", "SETUSER", "poor", "on", ">pw", "~*", "+@all", "-client", "resetchannels")
	client := connectTo(t, fmt.Sprintf("redis://poor:pw@127.0.0.1:%d", s.port), Options{})
	held := must[*Held](t)(client.Lock("a").TryAcquire(ctx))
	for range 2 {
		_, err := client.Lock("a").Acquire(ctx)
		check(t, errors.Is(err, ErrPermission) && strings.Contains(err.Error(), "&rlock:grants:*"), err)
	}
	s.do(t, "ACL", "SETUSER", "poor", "&rlock:grants:*")
	check(t, held.Release(ctx) == nil, "released")
	held = must[*Held](t)(client.Lock("a").Acquire(ctx))
	s.do(t, "ACL", "SETUSER", "poor", "-rlock.info")
	_, err := client.Lock("a").Info(ctx)
	wantError(t, err, ErrPermission)
	check(t, held.Release(ctx) == nil, "released")
}

func TestServersThatAreNone(t *testing.T) {
	ctx := within(t, 30*time.Second)
	plain := startOn(t, freePort())
	_, err := Connect(ctx, plain.url(), Options{})
	check(t, errors.Is(err, ErrModuleMissing) && strings.Contains(err.Error(), "loadmodule"), err)
	_, err = Connect(ctx, fmt.Sprintf("redis://127.0.0.1:%d", freePort()), Options{})
	wantError(t, err, ErrUnreachable)
	_, err = Connect(ctx, plain.url()+"/99", Options{})
	wantError(t, err, ErrRefused)
	_, err = Connect(ctx, startServer(t, "--replicaof", "127.0.0.1", "1").url(), Options{})
	check(t, errors.Is(err, ErrUnreachable) && strings.Contains(err.Error(), "is a replica"), err)

	for _, reply := range []string{"", "x", "HTTP/1.1 400 Bad Request\r\n\r\n", "$99999999999\r\n", "*-7\r\n", "+OK\r\n", strings.Repeat("*1\r\n", 50)} {
		listener := must[net.Listener](t)(net.Listen("tcp", "127.0.0.1:0"))
		go func() {
			for {
				conn, err := listener.Accept()
				if err != nil {
					return
				}
				_, _ = conn.Write([]byte(reply))
				time.AfterFunc(300*time.Millisecond, func() { _ = conn.Close() })
			}
		}()
		_, err := Connect(ctx, "redis://"+listener.Addr().String(), Options{ResponseTimeout: 100 * time.Millisecond})
		check(t, err != nil, reply)
		_ = listener.Close()
	}
	silent := must[net.Listener](t)(net.Listen("tcp", "127.0.0.1:0"))
	defer silent.Close()
	short, cancel := context.WithTimeout(ctx, 200*time.Millisecond)
	defer cancel()
	began := time.Now()
	_, err = Connect(short, "redis://"+silent.Addr().String(), Options{})
	check(t, errors.Is(err, ErrUnreachable) && errors.Is(err, context.DeadlineExceeded) && time.Since(began) < time.Second, err)
	eventually(t, "no goroutine is left", func() bool { return !strings.Contains(ownGoroutines(), "rlock.invalid/client.(*link)") })
}

func TestLikeTheApplicationsClient(t *testing.T) {
	ctx, s := within(t, 30*time.Second), startServer(t, "--requirepass", "secret")
	app := redis.NewClient(&redis.Options{
		Addr: fmt.Sprintf("127.0.0.1:%d", s.port), Password: "secret", DB: 3, PoolSize: 1, MinIdleConns: 1, ClientName: "app", ReadTimeout: time.Millisecond,
		OnConnect: func(ctx context.Context, conn *redis.Conn) error { return conn.Select(ctx, 5).Err() },
	})
	defer app.Close()
	client := must[*Client](t)(ConnectLike(ctx, app, Options{}))
	defer closeNow(client)
	held := must[*Held](t)(client.Lock("a").Acquire(ctx))
	theirs := must[*Held](t)(client.Lock("b").Acquire(ctx))
	short, cancel := context.WithTimeout(ctx, 300*time.Millisecond)
	defer cancel()
	_, err := client.Lock("b").Acquire(short)
	wantError(t, err, ErrTimeout)
	admin := redis.NewClient(&redis.Options{Addr: app.Options().Addr, Password: "secret", DB: 3})
	defer admin.Close()
	check(t, admin.Exists(ctx, "a").Val() == 1, "in the database of the application")
	check(t, held.Release(ctx) == nil && theirs.Release(ctx) == nil, "released")
	ring := redis.NewRing(&redis.RingOptions{})
	defer ring.Close()
	_, err = ConnectLike(ctx, ring, Options{})
	wantError(t, err, ErrUnsupported)
	_, err = ConnectLike(ctx, redis.NewFailoverClient(&redis.FailoverOptions{MasterName: "x", SentinelAddrs: []string{"x:1"}}), Options{})
	check(t, errors.Is(err, ErrUnsupported) && strings.Contains(err.Error(), "ConnectSentinel"), err)
	_, err = ConnectSentinel(ctx, &redis.FailoverOptions{}, Options{})
	wantError(t, err, ErrInvalid)
}

func TestTLS(t *testing.T) {
	ctx, s := within(t, 30*time.Second), startServer(t)
	key := must[*ecdsa.PrivateKey](t)(ecdsa.GenerateKey(elliptic.P256(), rand.Reader))
	card := &x509.Certificate{SerialNumber: big.NewInt(1), NotAfter: time.Now().Add(time.Hour), IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}}
	bytes := must[[]byte](t)(x509.CreateCertificate(rand.Reader, card, card, &key.PublicKey, key))
	outside := must[net.Listener](t)(tls.Listen("tcp", "127.0.0.1:0", &tls.Config{Certificates: []tls.Certificate{{Certificate: [][]byte{bytes}, PrivateKey: key}}}))
	p := &proxy{listener: outside, target: fmt.Sprintf("127.0.0.1:%d", s.port)}
	go p.accept()
	defer outside.Close()
	defer p.cut()
	_, err := Connect(ctx, "rediss://"+p.address(), Options{})
	check(t, errors.Is(err, ErrUnreachable) && strings.Contains(err.Error(), "certificate"), err)
	trusted := x509.NewCertPool()
	trusted.AddCert(must[*x509.Certificate](t)(x509.ParseCertificate(bytes)))
	app := redis.NewClient(&redis.Options{Addr: p.address(), TLSConfig: &tls.Config{RootCAs: trusted}})
	defer app.Close()
	client := must[*Client](t)(ConnectLike(ctx, app, Options{}))
	defer closeNow(client)
	held := must[*Held](t)(client.Lock("a").Acquire(ctx))
	check(t, held.Release(ctx) == nil, "released")
}

func TestAFailOver(t *testing.T) {
	ctx, first := within(t, 60*time.Second), startServer(t)
	second := startServer(t, "--replicaof", "127.0.0.1", fmt.Sprint(first.port))
	file := t.TempDir() + "/sentinel.conf"
	settings := fmt.Sprintf("sentinel monitor main 127.0.0.1 %d 1\nsentinel down-after-milliseconds main 500\nsentinel failover-timeout main 2000\n", first.port)
	writeFile(t, file, settings)
	sentinel := startOn(t, freePort(), "--sentinel", file)
	eventually(t, "the replica is known", func() bool {
		list, _ := sentinel.do(t, "SENTINEL", "REPLICAS", "main").([]any)
		return len(list) == 1 && strings.Contains(first.Info(ctx, "replication").Val(), "state=online")
	})
	silent := must[net.Listener](t)(net.Listen("tcp", "127.0.0.1:0"))
	defer silent.Close()
	failover := &redis.FailoverOptions{MasterName: "main", SentinelAddrs: []string{silent.Addr().String(), fmt.Sprintf("127.0.0.1:%d", sentinel.port)}}
	_, err := ConnectSentinel(ctx, &redis.FailoverOptions{MasterName: "none", SentinelAddrs: failover.SentinelAddrs[1:]}, Options{})
	check(t, errors.Is(err, ErrUnreachable) && strings.Contains(err.Error(), "none"), err)
	client := must[*Client](t)(ConnectSentinel(ctx, failover, Options{Lease: 20 * time.Second, Name: "holder"}))
	defer closeNow(client)
	held := must[*Held](t)(client.Lock("a").Acquire(ctx))
	other := must[*Held](t)(client.Lock("b").Acquire(ctx))
	waits := first.waitThenRelease(ctx, t, client.Lock("b"))
	eventually(t, "replicated", func() bool { return second.exists("a") && second.exists("b") })
	first.stop()
	eventually(t, "the wait is in the queue of the next primary", func() bool { return second.waiters(t, "b") == 1 })
	check(t, other.Release(ctx) == nil && <-waits == nil, "handed over")
	_, err = held.Check()
	check(t, err == nil && held.Release(ctx) == nil && !second.exists("a"), err)
	check(t, client.Close() == nil, "closed")
	eventually(t, "no connection is left", func() bool { return !sentinel.serves("holder@") })
}

// startCluster starts two nodes, each with half of the slots.
func startCluster(ctx context.Context, t *testing.T) (nodes []*server) {
	t.Helper()
	for range 2 {
		nodes = append(nodes, startServer(t, "--cluster-enabled", "yes"))
	}
	nodes[0].do(t, "CLUSTER", "ADDSLOTSRANGE", 0, 8191)
	nodes[1].do(t, "CLUSTER", "ADDSLOTSRANGE", 8192, 16383)
	nodes[0].do(t, "CLUSTER", "MEET", "127.0.0.1", nodes[1].port)
	for _, node := range nodes {
		eventually(t, "the cluster is up", func() bool { return strings.Contains(node.ClusterInfo(ctx).Val(), "cluster_state:ok") })
	}
	return nodes
}

// move has the keys of a lock's slot at the other node, and the slot once done is called.
func move(t *testing.T, nodes []*server, lock string) (to *server, done func()) {
	t.Helper()
	slot := slotOf(lock)
	from, to := nodes[slot/8192], nodes[1-slot/8192]
	identity := func(node *server) any { return node.do(t, "CLUSTER", "MYID") }
	to.do(t, "CLUSTER", "SETSLOT", slot, "IMPORTING", identity(from))
	from.do(t, "CLUSTER", "SETSLOT", slot, "MIGRATING", identity(to))
	names := from.do(t, "CLUSTER", "GETKEYSINSLOT", slot, 100).([]any)
	check(t, slices.Contains(names, any(lock)), names)
	for _, name := range names {
		from.do(t, "MIGRATE", "127.0.0.1", to.port, name, 0, 5000)
	}
	return to, func() {
		for _, node := range []*server{to, from} {
			node.do(t, "CLUSTER", "SETSLOT", slot, "NODE", identity(to))
		}
	}
}

func TestACluster(t *testing.T) {
	ctx := within(t, 60*time.Second)
	nodes := startCluster(ctx, t)
	_, err := Connect(ctx, nodes[0].url(), Options{})
	check(t, errors.Is(err, ErrUnsupported) && strings.Contains(err.Error(), "redis+cluster://"), err)
	dead := fmt.Sprintf("127.0.0.1:%d", freePort())
	app := redis.NewClusterClient(&redis.ClusterOptions{Addrs: []string{dead, fmt.Sprintf("127.0.0.1:%d", nodes[0].port)}})
	defer app.Close()
	var client *Client
	// On a busy machine no server may answer within a sixth of that lease.
	eventually(t, "a client", func() bool {
		client, err = ConnectLike(ctx, app, Options{Lease: 1500 * time.Millisecond})
		return err == nil
	})
	defer closeNow(client)
	for number := range 4 {
		lock := client.Lock(fmt.Sprint("lock-", number), Fenced(), SessionGrace(time.Second))
		held := must[*Held](t)(lock.TryAcquire(ctx))
		waits := nodes[slotOf(lock.Name())/8192].waitThenRelease(ctx, t, lock)
		_, done := move(t, nodes, lock.Name())
		done()
		info, err := lock.Info(ctx)
		check(t, err == nil && info.HolderCount == 1, info, err)
		check(t, held.Release(ctx) == nil && <-waits == nil, "handed over")
		forced, err := lock.ForceRelease(ctx)
		check(t, err == nil && !forced, err)
	}
}

// A re-entry went to another node than the last renewal, and tied the session to a connection whose end went unnoticed.
func TestAReentryAtAnotherNode(t *testing.T) {
	ctx := within(t, 60*time.Second)
	nodes := startCluster(ctx, t)
	client := connectTo(t, fmt.Sprintf("redis+cluster://127.0.0.1:%d", nodes[0].port), Options{})
	for _, name := range []string{"moves", "has moved"} {
		held := must[*Held](t)(client.Lock(name, SessionGrace(time.Second)).Acquire(ctx))
		to, done := move(t, nodes, name)
		if name == "has moved" {
			done()
		}
		again := must[*Held](t)(held.Reenter(ctx))
		time.Sleep(200 * time.Millisecond)
		to.do(t, "CLIENT", "KILL", "TYPE", "normal")
		time.Sleep(1500 * time.Millisecond)
		_, err := held.Check()
		check(t, err == nil, name, err)
		for _, each := range []*Held{again, held} {
			err = each.Release(ctx)
			check(t, err == nil, name, err)
		}
	}
}

// It may have tied the session, though nobody has heard of it; a renewal before it says nothing.
func TestAReentryWithoutAnAnswer(t *testing.T) {
	ctx, s := within(t, 30*time.Second), startServer(t)
	client := connectTo(t, s.url(), Options{})
	held := must[*Held](t)(client.Lock("a", SessionGrace(5*time.Second)).Acquire(ctx))
	a := held.acquisition
	tied := func() (tied bool) {
		client.do(func() { tied = a.tied == a.link && a.machine.tied })
		return tied
	}
	client.do(func() {
		before := a.machine.number
		a.tied = &link{}
		a.tiedBeside(a.link, a.machine.heldAt, answer{kind: failedPassing})
		check(t, a.tied != a.link && a.machine.tied, "it was not carried out")
		a.tiedBeside(a.link, a.machine.heldAt-time.Millisecond, answer{kind: failedUnanswered})
		check(t, a.tied == a.link && !a.machine.tied && a.machine.pending == before+1, "it is tied anew")
		check(t, a.machine.proven < a.machine.heldAt, "nothing is proven that is younger than the tie")
		// The answer to what was sent before comes late.
		a.tied = nil
		a.receiver(output{command: cmdRenew, number: before}, &link{})(int64(1), now())
		check(t, a.tied == nil, "the last renewal decides")
		// Nor has anybody heard of a renewal at the node that the slot leaves, after one at the next node.
		a.machine.tied, a.machine.proven = true, now()
		sentAt := a.machine.proven - time.Millisecond
		a.receiver(output{command: cmdRenew, number: a.machine.pending}, a.link)(undelivered{kind: failedUnanswered}, sentAt)
		check(t, a.tied == a.link && !a.machine.tied && a.machine.proven == sentAt, "heartbeats of the next node prove nothing")
	})
	eventually(t, "tied", tied)
	check(t, held.Release(ctx) == nil && !s.exists("a"), "released")
}
