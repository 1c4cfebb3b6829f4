package rlock

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
)

// group is a primary, its replica and three Sentinels.
type group struct {
	first, second *server
	sentinels     []*server
}

func startGroup(ctx context.Context, t *testing.T) *group {
	t.Helper()
	g := &group{first: startServer(t)}
	g.second = startServer(t, "--replicaof", "127.0.0.1", fmt.Sprint(g.first.port))
	settings := fmt.Sprintf("sentinel monitor main 127.0.0.1 %d 2\nsentinel down-after-milliseconds main 2000\n", g.first.port)
	for range 3 {
		file := t.TempDir() + "/sentinel.conf"
		writeFile(t, file, settings)
		g.sentinels = append(g.sentinels, startOn(t, freePort(t), "--sentinel", file))
	}
	for _, each := range g.sentinels {
		eventually(t, "the Sentinels know all", func() bool {
			others, _ := each.do(t, "SENTINEL", "SENTINELS", "main").([]any)
			replicas, _ := each.do(t, "SENTINEL", "REPLICAS", "main").([]any)
			return len(others) == 2 && len(replicas) == 1
		})
	}
	eventually(t, "the replica is in step", func() bool { return strings.Contains(g.first.Info(ctx, "replication").Val(), "state=online") })
	return g
}

// failOver asks for it until a Sentinel begins.
func (g *group) failOver(ctx context.Context, t *testing.T) time.Time {
	t.Helper()
	eventually(t, "a fail-over", func() bool {
		return g.sentinels[0].Do(ctx, "SENTINEL", "FAILOVER", "main").Err() == nil
	})
	return time.Now()
}

func (g *group) options(number int) *redis.FailoverOptions {
	return &redis.FailoverOptions{MasterName: "main", SentinelAddrs: []string{fmt.Sprintf("127.0.0.1:%d", g.sentinels[number].port)}}
}

func (s *server) serves(name string) bool {
	return strings.Contains(s.ClientList(context.Background()).Val(), name)
}

// While the old primary still accepts writes, the holder renewed there, and the next one acquired at the new one.
func TestAPlannedFailOverHasNoSecondHolder(t *testing.T) {
	ctx := within(t, 90*time.Second)
	g := startGroup(ctx, t)
	client := must[*Client](t)(ConnectSentinel(ctx, g.options(1), Options{Lease: 3 * time.Second, Name: "holder"}))
	defer closeNow(client)
	held := must[*Held](t)(client.Lock("a").Acquire(ctx))
	waited := must[*Held](t)(client.Lock("b").Acquire(ctx))
	waits := g.first.waitThenRelease(ctx, t, client.Lock("b"))
	eventually(t, "replicated", func() bool { return g.second.exists("a") && g.second.exists("b") })
	began := g.failOver(ctx, t)
	eventually(t, "the holder is at the new primary", func() bool { return g.second.serves("holder@") })
	eventually(t, "the waiter too", func() bool { return g.second.waiters(t, "b") == 1 })
	t.Log("moved after", time.Since(began))
	check(t, time.Since(began) < 4*time.Second, "moved after", time.Since(began))
	other := must[*Client](t)(ConnectSentinel(ctx, g.options(2), Options{}))
	defer closeNow(other)
	for time.Since(began) < 5*time.Second {
		_, err := other.Lock("a").TryAcquire(ctx)
		wantError(t, err, ErrDenied)
		_, err = held.Check()
		check(t, err == nil, err)
		time.Sleep(20 * time.Millisecond)
	}
	check(t, held.Release(ctx) == nil && !g.second.exists("a"), "released at the new primary")
	check(t, waited.Release(ctx) == nil && <-waits == nil && !g.second.exists("b"), "handed over at the new primary")
	// Back again: the Sentinels are those that were listed.
	g.first, g.second = g.second, g.first
	held = must[*Held](t)(client.Lock("a").Acquire(ctx))
	eventually(t, "the old primary is the replica", func() bool { return g.second.exists("a") })
	began = g.failOver(ctx, t)
	eventually(t, "back", func() bool { return g.second.serves("holder@") })
	check(t, time.Since(began) < 4*time.Second, "moved after", time.Since(began))
	check(t, held.Release(ctx) == nil && !g.second.exists("a"), "released")
	closeNow(other)
	check(t, client.Close() == nil, "closed")
	eventually(t, "no goroutine is left: "+ownGoroutines(), func() bool { return ownGoroutines() == "" })
	for _, each := range g.sentinels {
		eventually(t, "no connection is left", func() bool { return !each.serves("holder@") })
	}
}

// teller is a Sentinel with answers of its own.
type teller struct {
	address string
	mutex   sync.Mutex
	answers map[string]string
	asked   []string
	late    time.Duration
}

// says that this server is the primary, by this configuration, after some time.
func (s *teller) says(primary *server, epoch int, late time.Duration) {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	s.answers["SENTINEL MASTER"] = bulks("name", "main", "config-epoch", fmt.Sprint(epoch))
	s.answers["SENTINEL GET-MASTER-ADDR-BY-NAME"] = bulks("127.0.0.1", fmt.Sprint(primary.port))
	s.late = late
}

func bulks(words ...string) string { return string(appendCommand(nil, words)) }

func startTeller(t *testing.T, answers map[string]string) *teller {
	t.Helper()
	listener := must[net.Listener](t)(net.Listen("tcp", "127.0.0.1:0"))
	t.Cleanup(func() { _ = listener.Close() })
	s := &teller{address: listener.Addr().String(), answers: answers}
	go func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			go s.serve(conn)
		}
	}()
	return s
}

func (s *teller) serve(conn net.Conn) {
	defer conn.Close()
	from := bufio.NewReaderSize(conn, longestLine)
	for {
		words, err := readReply(from, 0)
		list, _ := words.([]any)
		if err != nil || len(list) == 0 {
			return
		}
		command := strings.ToUpper(fmt.Sprint(list[0]))
		if len(list) > 1 {
			command += " " + strings.ToUpper(fmt.Sprint(list[1]))
		}
		s.mutex.Lock()
		answer, known := s.answers[command]
		s.asked = append(s.asked, command)
		late := s.late
		s.mutex.Unlock()
		if command == "SENTINEL MASTER" {
			time.Sleep(late)
		}
		if !known {
			answer = "-ERR unknown command\r\n"
		}
		if _, err := conn.Write([]byte(answer)); err != nil {
			return
		}
	}
}

func stale(s *server, others ...*server) map[string]string {
	list := fmt.Sprintf("*%d\r\n", len(others))
	for _, each := range others {
		list += bulks("ip", "127.0.0.1", "port", fmt.Sprint(each.port))
	}
	return map[string]string{
		"SENTINEL MASTER": bulks("name", "main", "config-epoch", "0"), "SENTINEL SENTINELS": list,
		"SENTINEL GET-MASTER-ADDR-BY-NAME": bulks("127.0.0.1", fmt.Sprint(s.port)), "SUBSCRIBE +SWITCH-MASTER": "*3\r\n$9\r\nsubscribe\r\n$1\r\nx\r\n:1\r\n",
	}
}

// A Sentinel that missed the last fail-over named the old primary, which was believed.
func TestAStaleSentinelIsOutvoted(t *testing.T) {
	ctx := within(t, 60*time.Second)
	old, g := startServer(t), startGroup(ctx, t)
	g.failOver(ctx, t)
	eventually(t, "each Sentinel has the next configuration", func() bool {
		return !slices.ContainsFunc(g.sentinels, func(each *server) bool {
			return epochOf(each.do(t, "SENTINEL", "MASTER", "main")) == 0
		})
	})
	behind := startTeller(t, stale(old, g.sentinels...))
	client := must[*Client](t)(ConnectSentinel(ctx, &redis.FailoverOptions{MasterName: "main", SentinelAddrs: []string{behind.address}}, Options{}))
	defer closeNow(client)
	held := must[*Held](t)(client.Lock("a").Acquire(ctx))
	check(t, g.second.exists("a") && !old.exists("a"), "at the primary of the highest epoch")
	time.Sleep(1500 * time.Millisecond)
	check(t, held.Release(ctx) == nil, "it stays there")
}

// Each second it said that there is another primary, and was too late when the client looked for that one.
func TestASentinelThatAnswersLateIsHeard(t *testing.T) {
	ctx, old, now := within(t, 30*time.Second), startServer(t), startServer(t)
	var all []*teller
	var addresses []string
	for range 3 {
		each := startTeller(t, stale(old))
		all, addresses = append(all, each), append(addresses, each.address)
	}
	options := Options{Name: "late", Lease: 6 * time.Second}
	client := must[*Client](t)(ConnectSentinel(ctx, &redis.FailoverOptions{MasterName: "main", SentinelAddrs: addresses}, options))
	defer closeNow(client)
	held := must[*Held](t)(client.Lock("a").Acquire(ctx))
	all[2].says(now, 1, 400*time.Millisecond)
	eventually(t, "it is at the new one", func() bool { return now.serves("late@") })
	time.Sleep(1500 * time.Millisecond)
	check(t, now.serves("late@") && !old.serves("late@"), "it stays there")
	wantError(t, held.Release(ctx), ErrLost)
}

func TestAUserWithoutEpochsStillFindsThePrimary(t *testing.T) {
	ctx, s := within(t, 30*time.Second), startServer(t)
	answers := stale(s)
	answers["SENTINEL MASTER"] = "-NOPERM no permission\r\n"
	one := startTeller(t, answers)
	client := must[*Client](t)(ConnectSentinel(ctx, &redis.FailoverOptions{MasterName: "main", SentinelAddrs: []string{one.address}}, Options{}))
	defer closeNow(client)
	held := must[*Held](t)(client.Lock("a").Acquire(ctx))
	time.Sleep(2500 * time.Millisecond)
	check(t, held.Release(ctx) == nil, "released")
	one.mutex.Lock()
	defer one.mutex.Unlock()
	count := 0
	for _, each := range one.asked {
		if each == "SENTINEL MASTER" {
			count++
		}
	}
	check(t, count <= 3, "a refused question is not repeated", one.asked)
}

func TestWhichVerdictIsBelieved(t *testing.T) {
	at := func(primary string, epoch int64) verdict { return verdict{primary: primary, epoch: epoch} }
	dead := verdict{sentinel: "s", err: errors.New("refused")}
	for number, each := range []struct {
		before int64
		all    []verdict
		wanted string
	}{
		{0, []verdict{at("old", 0), at("new", 1), at("old", 0)}, "new"},
		{0, []verdict{at("x", 0), at("y", 0), at("y", 0)}, "y"},
		{5, []verdict{at("old", 4), dead, dead}, ""},
		{5, []verdict{at("anew", 0), at("anew", 0), dead}, "anew"},
		{5, []verdict{at("old", 4), at("now", 5), dead}, "now"},
		{0, []verdict{dead, dead, dead}, ""},
	} {
		s := &sentinels{known: []string{"1", "2", "3"}, epoch: each.before}
		best, err := s.believe("main", each.all)
		check(t, (err == nil) == (each.wanted != "") && (err != nil || best.primary == each.wanted), number, best, err)
	}
}

// The old primary behind the address refused all, and the client stayed at it for ever.
func TestAnAddressThatMoves(t *testing.T) {
	ctx, first := within(t, 60*time.Second), startServer(t)
	second := startServer(t, "--replicaof", "127.0.0.1", fmt.Sprint(first.port))
	eventually(t, "the replica is in step", func() bool { return strings.Contains(first.Info(ctx, "replication").Val(), "state=online") })
	p := startProxy(t, fmt.Sprintf("127.0.0.1:%d", first.port))
	client := connectTo(t, "redis://"+p.address(), Options{Lease: 6 * time.Second})
	held := must[*Held](t)(client.Lock("a").Acquire(ctx))
	other := must[*Held](t)(client.Lock("b").Acquire(ctx))
	waits := first.waitThenRelease(ctx, t, client.Lock("b"))
	first.do(t, "FAILOVER")
	eventually(t, "demoted", func() bool { return strings.Contains(second.Info(ctx, "replication").Val(), "role:master") })
	short, cancel := context.WithTimeout(ctx, 300*time.Millisecond)
	defer cancel()
	_, err := client.Lock("c").Acquire(short)
	check(t, errors.Is(err, ErrTimeout) && errors.Is(err, ErrUnreachable) && strings.Contains(err.Error(), p.address()), err)
	// Connections that are open stay where they are.
	p.set(func() { p.target = fmt.Sprintf("127.0.0.1:%d", second.port) })
	eventually(t, "the wait is in the queue of the next primary", func() bool { return second.waiters(t, "b") == 1 })
	check(t, other.Release(ctx) == nil && <-waits == nil, "handed over")
	_, err = held.Check()
	check(t, err == nil && held.Release(ctx) == nil && !second.exists("a"), err)
	_, err = Connect(ctx, first.url(), Options{})
	check(t, errors.Is(err, ErrUnreachable) && strings.Contains(err.Error(), "is a replica"), err)
}
