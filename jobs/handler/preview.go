package handler

import "batchq/jobs"

// Arguments are what an item's command would be called with, for who wants to
// see them beforehand. The error says which placeholder has no value.
func Arguments(spec *jobs.Spec, item *jobs.Item) ([]string, error) {
	return arguments(&spec.Handler, item)
}

// Line is a request on one line, for who wants to see it beforehand: its method
// and where it goes. The error says why it can't be made of the item.
func Line(spec *jobs.Spec, item *jobs.Item) (string, error) {
	sent, err := sentBy(&Attempt{Spec: spec, Item: item})
	if err != nil {
		return "", err
	}
	return sent.Method + " " + sent.URL, nil
}
