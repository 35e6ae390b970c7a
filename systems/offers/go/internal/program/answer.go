package program

import (
	"encoding/json"
	"io"
	"net/http"
)

// Failure is the body of an answer that says what is wrong.
type Failure struct {
	Error string `json:"error"`
}

// Answer writes JSON; it sets no header beside its type and the status.
func Answer(w http.ResponseWriter, status int, said any) {
	body, err := json.Marshal(said)
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	w.Header()["Content-Type"] = []string{"application/json"}
	w.WriteHeader(status)
	w.Write(body)
}

// Up answers "ok": what a service that is up says of itself.
func Up(w http.ResponseWriter, _ *http.Request) { io.WriteString(w, "ok") }
