import PushRecords

extension AppDirectory {
    /// Returns the app that was tried first, if a retry record names it, or else `foundApp`. Returns
    /// `RecordBody.unknownApp` if the named app is not configured here.
    func firstApp(_ request: ParsedRequest, foundApp: AppIndex) -> Int32 {
        guard let tried = request.retry?.triedApp, !tried.isEmpty else { return Int32(foundApp.value) }
        return index(named: tried).map { Int32($0.value) } ?? RecordBody.unknownApp
    }

    /// Returns the app that a request names, or else the default app of its topic group. Fails if no app matches.
    mutating func findApp(_ request: ParsedRequest, of group: Int) -> AppDirectory.Match {
        let (environment, topic) = (request.environment, request.headers.topic)
        let pushType = request.target == .channel ? nil : request.headers.pushType
        if request.app.isEmpty,
            let match = findDefault(of: group, environment: environment, topic: topic, pushType: pushType)
        {
            return match
        }
        let match = find(name: request.app, environment: environment, topic: topic, pushType: pushType)
        // The app had this name in the configuration of the worker that wrote the retry record. In this worker's
        // configuration the app may have another name, permanently or during a rolling restart.
        guard case .failure = match, request.retry != nil, !request.app.isEmpty, !topic.isEmpty else { return match }
        let byTopic = find(name: .nothing, environment: environment, topic: topic, pushType: pushType)
        // No configured app has the request's environment. Return the app that forwarded the request.
        guard case .failure = byTopic, let tried = request.retry?.triedApp, !tried.isEmpty else { return byTopic }
        return find(name: tried, environment: nil, topic: topic, pushType: pushType)
    }
}

extension ParsedRequest {
    /// Marks the request as invalid for this reason, unless it already is invalid.
    mutating func refuse(_ reason: ReasonCode, _ detail: Detail) {
        guard !isInvalid else { return }
        isInvalid = true
        failureReason = reason
        self.detail = detail
    }
}
