import PushRecords

/// What shows something is an alert.
func backgroundWithAlert() {
    var payload = BackgroundPayload()
    #if MISUSE
        // error: value of type 'BackgroundPayload' has no member 'title'
        payload.title = "News"
    #else
        payload.custom["title"] = "News"
    #endif
}
