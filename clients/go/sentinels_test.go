package rlock

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"net"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
)

func (s *server) serves(name string) bool {
	return strings.Contains(s.ClientList(context.Background()).Val(), name)
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

func stale(s *server) map[string]string {
	return map[string]string{
		"SENTINEL MASTER": bulks("name", "main", "config-epoch", "0"), "SENTINEL SENTINELS": "*0\r\n",
		"SENTINEL GET-MASTER-ADDR-BY-NAME": bulks("127.0.0.1", fmt.Sprint(s.port)), "SUBSCRIBE +SWITCH-MASTER": "*3\r\n$9\r\nsubscribe\r\n$1\r\nx\r\n:1\r\n",
	}
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
