// Command api is a client of an API with four endpoints that keeps to its limits, whatever they are.
package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"strings"

	"github.com/treadlight/crawl"
)

type Note struct{ Text string }

// API waits for the turn of each request, for Retry-After and used-up quotas, and tries again what may be.
type API struct {
	*crawl.Client
	base string
}

func (a API) Notes() ([]Note, error)            { return call[[]Note](a, "GET", "/notes", "") }
func (a API) Note(id string) (Note, error)      { return call[Note](a, "GET", "/notes/"+id, "") }
func (a API) Put(id, text string) (Note, error) { return call[Note](a, "PUT", "/notes/"+id, text) }
func (a API) Delete(id string) (bool, error)    { return call[bool](a, "DELETE", "/notes/"+id, "") }

func call[T any](a API, method, path, body string) (answer T, err error) {
	req, err := http.NewRequest(method, a.base+path, strings.NewReader(body))
	if err != nil {
		return answer, err
	}
	res, err := a.Do(req) // it waits for its turn
	if err != nil {
		return answer, err
	}
	defer res.Body.Close()
	if err = json.NewDecoder(res.Body).Decode(&answer); res.StatusCode != http.StatusOK {
		err = fmt.Errorf("%s %s: %s", method, path, res.Status)
	}
	return answer, err
}

func run(out io.Writer, a API) error {
	_, err1 := a.Put("1", "water the plants")
	note, err2 := a.Note("1")
	notes, err3 := a.Notes()
	gone, err4 := a.Delete("1")
	fmt.Fprintln(out, note, notes, gone)
	return errors.Join(err1, err2, err3, err4)
}

func main() {
	client, err := crawl.NewClient(crawl.ClientConfig{UserAgent: "notes/1.0 (+mailto:ops@example.org)"})
	if err == nil {
		err = run(os.Stdout, API{client, os.Args[1]})
	}
	fmt.Println("error:", err)
}
