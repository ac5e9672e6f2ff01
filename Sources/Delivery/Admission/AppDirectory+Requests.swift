import PushRecords

extension AppDirectory {
    /// Returns the app that a retry record names as tried first (or `RecordBody.unknownApp`), else the found app.
    func firstApp(_ request: ParsedRequest, foundApp: AppIndex) -> Int32 {
        guard let tried = request.retry?.triedApp, !tried.isEmpty else { return Int32(foundApp.value) }
        return index(named: tried).map { Int32($0.value) } ?? RecordBody.unknownApp
    }

    /// Returns the app of a request. If the request names no app, the share group of its topic may have a default app.
    mutating func findApp(_ request: ParsedRequest, of group: Int) -> AppDirectory.Match {
        let (environment, topic) = (request.environment, request.headers.topic)
        let pushType = request.target == .channel ? nil : request.headers.pushType
        if request.app.isEmpty,
            let match = findDefault(of: group, environment: environment, topic: topic, pushType: pushType)
        {
            return match
        }
        let match = find(name: request.app, environment: environment, topic: topic, pushType: pushType)
        // The worker that wrote a retry record knew the app. Here the app may have another name, for good or while
        // workers are being replaced.
        guard case .failure = match, request.retry != nil, !request.app.isEmpty, !topic.isEmpty else { return match }
        let byTopic = find(name: .nothing, environment: environment, topic: topic, pushType: pushType)
        // No app here is configured for that environment. The request belongs to the app that forwarded it there.
        guard case .failure = byTopic, let tried = request.retry?.triedApp, !tried.isEmpty else { return byTopic }
        return find(name: tried, environment: nil, topic: topic, pushType: pushType)
    }
}

extension ParsedRequest {
    /// Marks the request as invalid, unless it already is.
    mutating func refuse(_ reason: ReasonCode, _ detail: Detail) {
        guard !isInvalid else { return }
        isInvalid = true
        failureReason = reason
        self.detail = detail
    }
}
