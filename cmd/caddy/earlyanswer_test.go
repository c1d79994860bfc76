package main

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/cadenza-gateway/cadenza/internal/gatewaytest"
)

// earlyClients send the whole body of a request before they read, and print the status of
// each answer, or the error. Their arguments are the URL, the key, a body's size in bytes
// and a number of requests.
var earlyClients = map[string][]string{
	"node": {"node", "--input-type=module", "-e", `
const [url, key, size, n] = process.argv.slice(1);
const body = '{"x":"' + 'a'.repeat(Number(size)) + '"}';
for (let i = 0; i < Number(n); i++) {
	try {
		const answer = await fetch(url, { method: 'POST', body, headers: { Authorization: 'Bearer ' + key } });
		await answer.text();
		console.log(answer.status);
	} catch (e) { console.log('lost', e.cause?.code ?? e); }
}`},
	"python": {"python3", "-c", `
import http.client, sys, urllib.parse
url, key, size, n = sys.argv[1:]
u = urllib.parse.urlsplit(url)
body = b'{"x":"' + b'a' * int(size) + b'"}'
for i in range(int(n)):
    try:
        c = http.client.HTTPConnection(u.netloc, timeout=30)
        c.request('POST', u.path, body, {'Authorization': 'Bearer ' + key})
        r = c.getresponse()
        r.read()
        print(r.status)
    except OSError as e:
        print('lost', e)
    finally:
        c.close()
`},
	// Debian's Python, which has the package python3-requests.
	"requests": {"/usr/bin/python3", "-c", `
import sys
try:
    import requests
except ImportError:
    print('absent')
    sys.exit()
url, key, size, n = sys.argv[1:]
body = b'{"x":"' + b'a' * int(size) + b'"}'
for i in range(int(n)):
    try:
        print(requests.post(url, body, headers={'Authorization': 'Bearer ' + key}, timeout=30).status_code)
    except requests.RequestException as e:
        print('lost', e)
`},
	"curl": {"sh", "-c", `
command -v curl >/dev/null || { echo absent; exit; }
file=$(mktemp)
head -c "$3" /dev/zero | tr '\0' a > "$file"
i=0
while [ $i -lt "$4" ]; do
	i=$((i+1))
	curl -sS -o /dev/null -w '%{http_code}\n' -H 'Expect:' -H "Authorization: Bearer $2" --data-binary "@$file" "$1" 2>&1 || echo "lost curl $?"
done
rm "$file"`, "sh"},
}

// TestMustHoldEarlyAnswersArrive checks that an answer that comes before the end of a
// request's body is not lost with the connection, with clients that send the whole body
// before they read.
func TestMustHoldEarlyAnswersArrive(t *testing.T) {
	t.Parallel()
	p := newProcess(t, t.TempDir())
	p.start()
	total := gatewaytest.Full(1000)
	const limit = 1 << 20
	cases := []struct {
		name, key string
		size      int
		status    int
	}{
		{"413", demoKey, limit + 2<<20, 413},
		{"413 large", demoKey, limit + 8<<20, 413},
		{"401", "cadenza-not-a-key-0001", 2 << 20, 401},
		{"401 large", "cadenza-not-a-key-0001", 8 << 20, 401},
	}
	for _, test := range cases {
		each := max(total/(len(cases)*(len(earlyClients)+2)), 4)
		check := func(client string, answers []string) {
			lost := 0
			for _, status := range answers {
				if status != strconv.Itoa(test.status) {
					lost++
				}
			}
			if lost > 0 || len(answers) != each {
				t.Errorf("%s, %s: %d of %d answers lost: %.300q", test.name, client, lost, len(answers), answers)
			}
		}
		url := p.url + "/v1/prompts"
		for client, command := range earlyClients {
			if _, err := exec.LookPath(command[0]); err != nil {
				if os.Getenv("CADENZA_REQUIRE_NODE") != "" && client == "node" {
					t.Error(err)
				}
				t.Logf("without %s: %v", client, err)
				continue
			}
			run := exec.CommandContext(t.Context(), command[0], append(command[1:len(command):len(command)], url, test.key, strconv.Itoa(test.size), strconv.Itoa(each))...)
			output, err := run.CombinedOutput()
			if err != nil {
				t.Fatalf("%s: %v\n%s", client, err, output)
			}
			if strings.TrimSpace(string(output)) == "absent" {
				t.Logf("without %s", client)
				continue
			}
			check(client, strings.Split(strings.TrimSpace(string(output)), "\n"))
		}
		check("Go, the whole body first", repeated(each, func() string { return sendThenRead(t, p.url, test.key, test.size) }))
		check("Go, over HTTP/2", repeated(each, func() string { return overHTTP2(t, url, test.key, test.size) }))
	}
}

// repeated runs a client n times, four at once.
func repeated(n int, client func() string) []string {
	answers := make([]string, n)
	var group sync.WaitGroup
	for worker := range 4 {
		group.Go(func() {
			for i := worker; i < n; i += 4 {
				answers[i] = client()
			}
		})
	}
	group.Wait()
	return answers
}

// sendThenRead writes a whole request, at the speed of a network, before it reads a byte.
func sendThenRead(t *testing.T, url, key string, size int) string {
	connection, err := net.Dial("tcp", strings.TrimPrefix(url, "http://"))
	if err != nil {
		return "lost " + err.Error()
	}
	defer connection.Close()
	if err := connection.SetDeadline(time.Now().Add(time.Minute)); err != nil {
		return "lost " + err.Error()
	}
	fmt.Fprintf(connection, "POST /v1/prompts HTTP/1.1\r\nHost: gateway\r\nAuthorization: Bearer %s\r\nContent-Length: %d\r\n\r\n", key, size)
	piece := bytes.Repeat([]byte("a"), 64<<10)
	for sent := 0; sent < size; {
		n, err := connection.Write(piece[:min(len(piece), size-sent)])
		if err != nil {
			return fmt.Sprintf("lost after %d bytes: %v", sent, err)
		}
		sent += n
		if sent%(1<<20) == 0 {
			time.Sleep(50 * time.Millisecond)
		}
	}
	answer, err := http.ReadResponse(bufio.NewReader(connection), nil)
	if err != nil {
		return "lost " + err.Error()
	}
	defer answer.Body.Close()
	if _, err := io.Copy(io.Discard, answer.Body); err != nil {
		return "lost " + err.Error()
	}
	return strconv.Itoa(answer.StatusCode)
}

func overHTTP2(t *testing.T, url, key string, size int) string {
	var protocols http.Protocols
	protocols.SetUnencryptedHTTP2(true)
	transport := &http.Transport{Protocols: &protocols}
	defer transport.CloseIdleConnections()
	request, err := http.NewRequestWithContext(t.Context(), "POST", url, bytes.NewReader(make([]byte, size)))
	if err != nil {
		return "lost " + err.Error()
	}
	request.Header.Set("Authorization", "Bearer "+key)
	answer, err := (&http.Client{Transport: transport}).Do(request)
	if err != nil {
		return "lost " + err.Error()
	}
	defer answer.Body.Close()
	if _, err := io.Copy(io.Discard, answer.Body); err != nil {
		return "lost " + err.Error()
	}
	return strconv.Itoa(answer.StatusCode)
}
