import PushRecords

extension AppDirectory {
    /// The app that called the token of a retry record bad before, or else the one that was found.
    func firstApp(_ request: ParsedRequest, foundApp: AppIndex) -> Int32 {
        guard let tried = request.retry?.triedApp, !tried.isEmpty else { return Int32(foundApp.value) }
        return index(named: tried).map { Int32($0.value) } ?? RecordBody.unknownApp
    }

    /// - Parameter group: the share group of its topic, which may name the app of requests that name none.
    mutating func findApp(_ request: ParsedRequest, of group: Int) -> AppDirectory.Match {
        let (environment, topic) = (request.environment, request.headers.topic)
        let pushType = request.target == .channel ? nil : request.headers.pushType
        if request.app.isEmpty,
            let match = findDefault(of: group, environment: environment, topic: topic, pushType: pushType)
        {
            return match
        }
        let match = find(name: request.app, environment: environment, topic: topic, pushType: pushType)
        // The worker that wrote a retry record knew the app; here it may have another name, while workers are replaced
        // or for good.
        guard case .failure = match, request.retry != nil, !request.app.isEmpty, !topic.isEmpty else { return match }
        let byTopic = find(name: .nothing, environment: environment, topic: topic, pushType: pushType)
        // No app here sends to the other environment: the request belongs to the app that sent it there again.
        guard case .failure = byTopic, let tried = request.retry?.triedApp, !tried.isEmpty else { return byTopic }
        return find(name: tried, environment: nil, topic: topic, pushType: pushType)
    }
}

extension ParsedRequest {
    /// Refuses the request, unless it is refused already.
    mutating func refuse(_ reason: ReasonCode, _ detail: Detail) {
        guard !isInvalid else { return }
        isInvalid = true
        failureReason = reason
        self.detail = detail
    }
}
