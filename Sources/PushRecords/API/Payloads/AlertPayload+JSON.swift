import JSON

extension AlertPayload {
    /// The payload as it goes to Apple; equal payloads are equal bytes.
    ///
    /// Throws what is wrong with a number, a name or JSON made elsewhere. Its size is checked with the record.
    public func json() throws(RequestError) -> [UInt8] {
        try check()
        return try JSONWriter.payload(beside: custom) { json throws(RequestError) in
            writeAlert(&json)
            if let badge { json.member("badge", badge) }
            sound?.write(to: &json)
            if let category { json.member("category", category) }
            if let threadID { json.member("thread-id", threadID) }
            if let targetContentID { json.member("target-content-id", targetContentID) }
            if isMutable { json.member("mutable-content", 1) }
            if isContentAvailable { json.member("content-available", 1) }
            if let interruptionLevel { json.member("interruption-level", interruptionLevel.rawValue) }
            if let relevanceScore { json.member("relevance-score", relevanceScore) }
            if let filterCriteria { json.member("filter-criteria", filterCriteria) }
            if let urlArguments { json.member("url-args", urlArguments) }
            try more.write(to: &json, "aps", depth: 3)
        }
    }

    /// What `json` writes by itself.
    private static let names: Set<String> = [
        "alert", "badge", "sound", "category", "thread-id", "target-content-id", "mutable-content", "content-available",
        "interruption-level", "relevance-score", "filter-criteria", "url-args",
    ]

    private func check() throws(RequestError) {
        if let badge, badge < 0 { throw RequestError(.badRequestPayload, "badge must be 0 or more") }
        if let relevanceScore, !(0...1).contains(relevanceScore) {
            throw RequestError(.badRequestPayload, "relevance-score must be 0 to 1")
        }
        if case .critical(_, let volume)? = sound, !(0...1).contains(volume) {
            throw RequestError(.badRequestPayload, "sound: volume must be 0 to 1")
        }
        if let name = Self.names.sorted().first(where: { more[$0] != nil }) {
            throw RequestError(.badRequestPayload, "more: \(name) has a property of its own")
        }
    }

    private func writeAlert(_ json: inout JSONWriter) {
        let isMoreThanABody =
            title != nil || localizedTitle != nil || subtitle != nil || localizedSubtitle != nil
            || localizedBody != nil || launchImage != nil || action != nil || actionLocKey != nil
        guard isMoreThanABody else {
            if let body { json.member("alert", body) }
            return
        }
        json.name("alert")
        json.beginObject()
        json.member(ifAny: "title", title)
        json.localized("title-loc-key", "title-loc-args", localizedTitle)
        json.member(ifAny: "subtitle", subtitle)
        json.localized("subtitle-loc-key", "subtitle-loc-args", localizedSubtitle)
        json.member(ifAny: "body", body)
        json.localized("loc-key", "loc-args", localizedBody)
        json.member(ifAny: "launch-image", launchImage)
        json.member(ifAny: "action", action)
        json.member(ifAny: "action-loc-key", actionLocKey)
        json.endObject()
    }
}

extension AlertPayload.Sound {
    fileprivate func write(to json: inout JSONWriter) {
        switch self {
        case .standard: json.member("sound", "default")
        case .named(let name): json.member("sound", name)
        case .critical(let name, let volume):
            json.name("sound")
            json.beginObject()
            json.member("critical", 1)
            json.member("name", name)
            json.member("volume", volume)
            json.endObject()
        }
    }
}

extension JSONWriter {
    mutating func member(_ name: String, _ texts: [String]) {
        self.name(name)
        beginArray()
        for text in texts { value(text) }
        endArray()
    }

    /// Nothing, where there is none.
    mutating func member(ifAny name: String, _ text: String?) {
        if let text { member(name, text) }
    }

    /// A key of the app's strings and what is put into it, as two members; nothing, where there is none.
    mutating func localized(_ key: String, _ arguments: String, _ text: LocalizedText?) {
        guard let text else { return }
        member(key, text.key)
        if !text.arguments.isEmpty { member(arguments, text.arguments) }
    }
}
