// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bufio"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"github.com/microsoft/durabletask-go/api"
)

const (
	instancesN = 50
	stepsN     = 5
	crashHub   = "crash"
)

// A server, a client and a worker process, all of which can be killed.
type world struct {
	server *nornServer
	client *hub
	worker *exec.Cmd
}

func (w *world) ledger() string { return filepath.Join(w.server.directory, "ledger") }

// A channel whose server was away waits before it tries again; a new one does not.
func (w *world) connect() {
	if w.client != nil {
		w.client.close()
	}
	w.client = connect(w.server.address, crashHub)
}

func (w *world) startWorker() {
	program, err := os.Executable()
	must(err)
	w.worker = exec.Command(program, "--worker", w.server.address, crashHub, w.ledger())
	w.worker.Stderr = os.Stderr
	output, err := w.worker.StdoutPipe()
	must(err)
	must(w.worker.Start())
	line, err := bufio.NewReader(output).ReadString('\n')
	must(err)
	expect("ready\n", line)
}

func (w *world) killWorker() {
	if w.worker == nil {
		return
	}
	must(w.worker.Process.Kill())
	_ = w.worker.Wait()
	w.worker = nil
}

func (w *world) crash(away time.Duration) {
	w.server.kill()
	time.Sleep(away)
	w.server.start()
	w.connect()
}

// How often each activity ran.
func (w *world) runs() map[string]int {
	counts := map[string]int{}
	text, _ := os.ReadFile(w.ledger()) // it is there from the first step on
	for _, line := range strings.Fields(string(text)) {
		counts[line]++
	}
	return counts
}

func (w *world) startSequences() {
	for i := 0; i < instancesN; i++ {
		key := fmt.Sprintf("s%d", i)
		w.client.start("durableSequence", durable{key, stepsN},
			api.WithInstanceID(api.InstanceID(key)))
	}
}

func (w *world) untilHalfWay() {
	eventually("the first steps have run", func() bool { return len(w.runs()) >= instancesN })
}

func (w *world) expectSequences() {
	for i := 0; i < instancesN; i++ {
		expected := []string{}
		for step := 0; step < stepsN; step++ {
			expected = append(expected, fmt.Sprintf("s%d/%d", i, step))
		}
		expect(toJSON(expected), w.client.output(api.InstanceID(fmt.Sprintf("s%d", i))))
	}
	expect(instancesN*stepsN, len(w.runs()))
}

func inWorld(test func(w *world)) func() {
	return func() {
		w := &world{server: newServer()}
		defer func() {
			w.killWorker()
			if w.client != nil {
				w.client.close()
			}
			w.server.remove()
		}()
		w.server.start()
		w.connect()
		w.startWorker()
		test(w)
	}
}

var crashCases = []testCase{
	{"fifty orchestrations survive kill -9 of the server", inWorld(func(w *world) {
		w.startSequences()
		w.untilHalfWay()
		w.crash(300 * time.Millisecond)
		w.expectSequences()
	})},
	{"fifty orchestrations survive kill -9 of their worker", inWorld(func(w *world) {
		w.startSequences()
		w.untilHalfWay()
		w.killWorker()
		w.startWorker()
		w.expectSequences()
	})},
	{"a start that was acknowledged is there after a kill", inWorld(func(w *world) {
		w.killWorker() // nothing moves: what is there was written by the start alone
		w.startSequences()
		w.crash(300 * time.Millisecond)
		for i := 0; i < instancesN; i++ {
			state := w.client.state(api.InstanceID(fmt.Sprintf("s%d", i)))
			expect(api.RUNTIME_STATUS_PENDING, state.RuntimeStatus)
		}
		w.startWorker()
		w.expectSequences()
	})},
	{"timers, events and children survive kill -9 of the server", inWorld(func(w *world) {
		for i := 0; i < 10; i++ {
			id := api.InstanceID(fmt.Sprintf("m%d", i))
			w.client.start("durableMix", string(id), api.WithInstanceID(id))
			w.client.raise(id, "go", i) // before anybody waits for it
		}
		eventually("every first step has run", func() bool { return len(w.runs()) >= 10 })
		w.crash(1700 * time.Millisecond) // the timers fall due while there is no server
		for i := 0; i < 10; i++ {
			key := fmt.Sprintf("m%d", i)
			expect(toJSON([]any{key + "/first", i, []string{key + "/child/0", key + "/child/1"}}),
				w.client.output(api.InstanceID(key)))
		}
	})},
	{"a server that is stopped and started again goes on", inWorld(func(w *world) {
		w.startSequences()
		w.untilHalfWay()
		w.server.stop()
		w.server.start()
		w.connect()
		w.expectSequences()
	})},
}
