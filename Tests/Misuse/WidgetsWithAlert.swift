import PushRecords

/// A widget is told that something changed, and nothing else.
func widgetsWithAlert() {
    #if MISUSE
        // error: argument passed to call that takes no arguments
        _ = WidgetsPayload(title: "News")
    #else
        _ = WidgetsPayload()
    #endif
}
