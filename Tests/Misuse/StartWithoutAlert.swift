import PushRecords

/// "Include an alert in the JSON payload."
func startWithoutAlert(attributes: PayloadValue, state: PayloadValue) {
    #if MISUSE
        // error: missing argument for parameter 'alert'
        _ = LiveActivityStart(attributesType: "A", attributes: attributes, contentState: state, timestamp: 1)
    #else
        let alert = LiveActivityAlert(title: "Ajax – PSV", body: "Kick-off")
        _ = LiveActivityStart(
            attributesType: "A", attributes: attributes, contentState: state, alert: alert, timestamp: 1)
    #endif
}
