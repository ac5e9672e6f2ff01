internal import Configuration
internal import Delivery
internal import PushRecords

extension WorkerConfiguration {
    /// What of the configuration the Delivery machine decides by.
    var machineSettings: MachineSettings {
        var settings = MachineSettings()
        settings.ordering = delivery.ordering == .device ? .device : .none
        settings.derivesIDs = delivery.apnsID == .derived
        settings.inDoubt = delivery.inDoubt == .resend ? .resend : .abandon
        settings.resendMax = delivery.resendMax
        settings.maxAgeMs = delivery.maxAge?.milliseconds ?? 0
        settings.maxAheadMs = delivery.maxAhead.milliseconds
        settings.maxOpen = delivery.maxOpen
        settings.maxOpenBytes = delivery.maxOpenBytes
        settings.commitIntervalNs = delivery.commitInterval.nanoseconds
        // Less than the time after which the group may have given the partitions to others.
        settings.leaseNs = kafka.sessionTimeout.nanoseconds / 5 * 4
        settings.publishesOnlyFailures = results.publish == .failures
        settings.copiedHeaders = results.copyHeaders
        settings.includesBadTokens = unregistered.includeBadTokens
        settings.tiers = retry.tiers.map { MachineSettings.Tier(delayMs: $0.delay.milliseconds) }
        settings.maxAttempts = retry.maxAttempts
        for (reason, verdict) in delivery.verdicts {
            settings.verdicts[reason.rawValue] =
                switch verdict {
                case .accept: .accept
                case .unregister: .unregister
                case .reject: .reject
                case .resend: .resend
                case .retry: .retry
                case .credentialFault: .credentialFault
                }
        }
        settings.hashSeed = UInt64.random(in: .min ... .max)
        return settings
    }
}
