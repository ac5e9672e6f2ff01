import PushRecords

extension AppDirectory {
    /// The app that called the token of a retry record bad before, or else the one that was found.
    func firstApp(_ request: ParsedRequest, foundApp: AppIndex) -> Int32 {
        guard let tried = request.retry?.triedApp, !tried.isEmpty else { return Int32(foundApp.value) }
        return index(named: tried).map { Int32($0.value) } ?? RecordBody.unknownApp
    }

    /// Whether another environment than that of `app` has been asked about a record's tokens, or can be.
    func hasOther(_ app: Int, first: Int32, isBroadcast: Bool) -> Bool {
        app != Int(first) || other(app) != nil && !isBroadcast
    }

    /// - Parameter group: the share group of its topic, which may name the app of requests that name none.
    mutating func findApp(_ request: ParsedRequest, of group: Int) -> AppDirectory.Match {
        let isBroadcast = request.target == .channel
        if request.app.isEmpty,
            let match = findDefault(
                of: group, environment: request.environment, topic: request.headers.topic,
                pushType: request.headers.pushType, isBroadcast: isBroadcast)
        {
            return match
        }
        let match = find(
            name: request.app, environment: request.environment, topic: request.headers.topic,
            pushType: request.headers.pushType, isBroadcast: isBroadcast)
        // The worker that wrote a retry record knew the app; here it may have another name, while workers are replaced
        // or for good.
        guard case .failure = match, request.retry != nil, !request.app.isEmpty, !request.headers.topic.isEmpty else {
            return match
        }
        let noName = UnsafeRawBufferPointer(start: nil, count: 0)
        let byTopic = find(
            name: noName, environment: request.environment, topic: request.headers.topic,
            pushType: request.headers.pushType, isBroadcast: isBroadcast)
        // No app here sends to the other environment: the request belongs to the app that sent it there again.
        guard case .failure = byTopic, let tried = request.retry?.triedApp, !tried.isEmpty else { return byTopic }
        return find(
            name: tried, environment: nil, topic: request.headers.topic, pushType: request.headers.pushType,
            isBroadcast: isBroadcast)
    }
}

extension ParsedRequest {
    /// The request as one that is refused, unless it is already: the detail names what it asked for.
    func refused(_ reason: ReasonCode, _ text: StaticString, _ subject: AppDirectory.Subject)
        -> ParsedRequest
    {
        guard !isInvalid else { return self }
        var refused = self
        refused.isInvalid = true
        refused.failureReason = reason
        refused.detail =
            switch subject {
            case .name: Detail(text, app)
            case .topic: Detail(text, headers.topic)
            case .nothing: Detail(text)
            }
        return refused
    }
}
