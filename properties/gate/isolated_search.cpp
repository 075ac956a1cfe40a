// Repeats a search with a process for each case, after a crash or a hang, and shrinks the failure.
#include <truestep/gate/isolated_search.hpp>

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <utility>

#include "scratch.hpp"

namespace truestep::gate {

namespace {

using nlohmann::ordered_json;

/// A finding that another process sent.
class FindingFromJson final : public Finding {
  public:
    explicit FindingFromJson(ordered_json json) : json_(std::move(json)) {}
    std::string message() const override { return json_["message"]; }
    std::string details() const override { return json_["details"]; }
    ordered_json first() const override { return json_["first"]; }
    std::int64_t parted_at() const override { return json_["parted_at"]; }
    ordered_json drawn() const override { return json_["drawing"]; }
    Size size() const override {
        return {.elements = json_["elements"], .ranks = json_["ranks"], .steps = json_["steps"]};
    }
    bool save(const std::filesystem::path& path, const std::string& /*source*/) const override {
        const std::string kept = json_["trace"];
        if (kept.empty())
            return false;
        std::filesystem::copy_file(kept, path, std::filesystem::copy_options::overwrite_existing);
        return true;
    }
    std::string lacks(const std::filesystem::path& /*trace*/) const override { return json_["lacks"]; }

  private:
    ordered_json json_;
};

ordered_json finding_json(const Finding* finding, const std::string& source) {
    if (finding == nullptr)
        return nullptr;
    std::string trace;
    std::string lacks;
    if (!source.empty()) {
        trace = lasting_scratch_file("trace.safetensors");
        if (finding->save(trace, source))
            lacks = finding->lacks(trace);
        else
            trace = "";
    }
    const Finding::Size size = finding->size();
    return {{"message", finding->message()},
            {"details", finding->details()},
            {"first", finding->first()},
            {"parted_at", finding->parted_at()},
            {"drawing", finding->drawn()},
            {"elements", size.elements},
            {"ranks", size.ranks},
            {"steps", size.steps},
            {"trace", trace},
            {"lacks", lacks}};
}

std::shared_ptr<const Finding> finding_of(const ordered_json& json) {
    return json.is_null() ? nullptr : std::make_shared<FindingFromJson>(json);
}

ordered_json counts_json(const Counts& counts) {
    return {counts.compared, counts.wrong, counts.greatest_ulps, counts.share_of_limit};
}

Counts counts_of(const ordered_json& json) {
    return {.compared = json[0], .wrong = json[1], .greatest_ulps = json[2], .share_of_limit = json[3]};
}

/// Judges each case in a process of its own.
class ChildProcessJudge {
  public:
    ChildProcessJudge(double most_seconds, std::string source)
        : most_seconds_(most_seconds), limit_(most_seconds), source_(std::move(source)) {}

    CaseJudgement operator()(const Implementation& implementation, const Property& property,
                             const Line& line) {
        using Clock = std::chrono::steady_clock;
        const auto begin = Clock::now();
        ProcessEnd ended;
        const ordered_json answer = in_child(
            [&] {
                const CaseJudgement judged = gate::judged(implementation, property, line);
                return ordered_json{{"finding", finding_json(judged.finding.get(), source_)},
                                    {"kinds", judged.kinds},
                                    {"counts", counts_json(judged.counts)}};
            },
            limit_, ended);
        if (ended.how.empty()) {
            const std::chrono::duration<double> taken = Clock::now() - begin;
            longest_ = std::max(longest_, taken.count());
            return {.finding = finding_of(answer["finding"]),
                    .kinds = answer["kinds"],
                    .counts = counts_of(answer["counts"])};
        }
        // A case that hangs has been waited for long enough. Smaller cases take less and get less time; the
        // smallest gets the full time at the end.
        hung_ = hung_ || ended.how.starts_with("took");
        if (hung_)
            limit_ = std::min(most_seconds_, 2.0 + 20.0 * longest_);
        return {.finding = unjudged("it " + ended.how), .kinds = {}, .counts = {}};
    }

    void give_all_time() { limit_ = most_seconds_; }

  private:
    double most_seconds_;
    double limit_;
    std::string source_;
    double longest_ = 0.0;
    bool hung_ = false;
};

} // namespace

SearchResult search_again(const System& system, const Implementation& implementation,
                          const Property& property, const SearchOptions& options, const ProcessEnd& before,
                          double most_seconds, const std::string& source) {
    if (before.how.empty())
        return search(system, implementation, property, options);
    ChildProcessJudge apart(most_seconds, source);
    SearchOptions each = options;
    each.judge = [&apart](const Implementation& of, const Property& asked, const Line& line) {
        return apart(of, asked, line);
    };
    SearchResult result = search(system, implementation, property, each);
    if (result.counterexample) {
        apart.give_all_time();
        SearchResult again;
        if (try_case(implementation, property, result.counterexample->line, each, again))
            return result;
    }
    // Keeps the failure that ended the first process, even if it does not come again.
    result.counterexample = Counterexample{
        .line = before.line,
        .finding =
            unjudged("it " + before.how +
                     (result.ended ? "; there was no time to try it again" : "; tried again, it did not"))};
    return result;
}

ordered_json to_json(const SearchResult& result, const std::string& source) {
    ordered_json found;
    if (result.counterexample)
        found = {{"line", result.counterexample->line},
                 {"finding", finding_json(result.counterexample->finding.get(), source)},
                 {"evaluations", result.counterexample->evaluations},
                 {"schedule", result.counterexample->schedule}};
    return {{"cases", result.cases},
            {"drawn", result.drawn},
            {"kinds", result.kinds},
            {"counts", counts_json(result.counts)},
            {"found", found},
            {"ended", result.ended},
            {"interrupted", result.interrupted},
            {"seconds", result.seconds}};
}

SearchResult search_result(const ordered_json& json) {
    SearchResult result;
    if (json.is_null()) {
        result.ended = result.interrupted = true;
        return result;
    }
    result.cases = json["cases"];
    result.drawn = json["drawn"];
    result.kinds = json["kinds"].get<std::map<std::string, int>>();
    result.counts = counts_of(json["counts"]);
    result.ended = json["ended"];
    result.interrupted = json["interrupted"];
    result.seconds = json["seconds"];
    if (const ordered_json& found = json["found"]; !found.is_null())
        result.counterexample = Counterexample{.line = found["line"],
                                               .finding = finding_of(found["finding"]),
                                               .evaluations = found["evaluations"],
                                               .schedule = found["schedule"]};
    return result;
}

} // namespace truestep::gate
