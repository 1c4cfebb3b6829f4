package rlock

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"strconv"
)

// The protocol of the connections, RESP3, as far as it is used. go-redis sends a command only when the reply to the one before has arrived, and its
// PubSub connects again by itself. Here a connection carries many commands at a time, and its end is known at once.

const (
	longestLine  = 64 << 10
	longestBulk  = 16 << 20
	deepestReply = 8
)

// push is what the server says unasked, and the reply to a subscription.
type push []any

var errProtocol = errors.New("the server's reply is not understood")

func appendCommand(to []byte, words []string) []byte {
	to = fmt.Appendf(to, "*%d\r\n", len(words))
	for _, word := range words {
		to = fmt.Appendf(to, "$%d\r\n%s\r\n", len(word), word)
	}
	return to
}

// readReply reads a string, an int64, a serverError, a list of replies, or nil.
func readReply(from *bufio.Reader, depth int) (any, error) {
	line, err := from.ReadSlice('\n')
	if errors.Is(err, bufio.ErrBufferFull) {
		return nil, errProtocol
	}
	if err != nil {
		return nil, err
	}
	if len(line) < 3 || line[len(line)-2] != '\r' || depth > deepestReply {
		return nil, errProtocol
	}
	kind, text := line[0], string(line[1:len(line)-2])
	switch kind {
	case '+':
		return text, nil
	case '-':
		return serverError(text), nil
	case '_':
		return nil, nil
	}
	number, err := strconv.ParseInt(text, 10, 64)
	switch {
	case err != nil:
		return nil, errProtocol
	case kind == ':':
		return number, nil
	case number == -1 && (kind == '$' || kind == '*'):
		return nil, nil
	case kind == '$' && number >= 0 && number <= longestBulk:
		return readBulk(from, int(number))
	case kind == '*' && number >= 0:
		return readList(from, number, depth)
	case kind == '>' && number >= 0:
		list, err := readList(from, number, depth)
		return push(list), err
	case kind == '%' && number >= 0 && number <= longestBulk:
		return readList(from, 2*number, depth) // as RESP2 has it
	}
	return nil, errProtocol
}

func readBulk(from io.Reader, length int) (any, error) {
	bulk := make([]byte, length+2)
	if _, err := io.ReadFull(from, bulk); err != nil {
		return nil, err
	}
	if string(bulk[length:]) != "\r\n" {
		return nil, errProtocol
	}
	return string(bulk[:length]), nil
}

func readList(from *bufio.Reader, length int64, depth int) ([]any, error) {
	// The length is the server's word: memory is taken for what arrives.
	list := []any{}
	for range length {
		item, err := readReply(from, depth+1)
		if err != nil {
			return nil, err
		}
		list = append(list, item)
	}
	return list, nil
}
