import PushRecords

/// What is put into a text of the app needs the text.
func argumentsWithoutKey() {
    var payload = AlertPayload()
    #if MISUSE
        // error: missing argument for parameter #1 in call
        payload.localizedBody = LocalizedText(arguments: ["Shelly", "Rick"])
    #else
        payload.localizedBody = LocalizedText("GAME_PLAY_REQUEST_FORMAT", arguments: ["Shelly", "Rick"])
    #endif
}
