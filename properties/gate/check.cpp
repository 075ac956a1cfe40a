#include "check.hpp"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <filesystem>
#include <stdexcept>
#include <utility>

#include <truestep/gate/isolated_search.hpp>
#include <truestep/problem/error.hpp>
#include <truestep/report/folder.hpp>
#include <truestep/verify/level.hpp>

#include "diagnosis.hpp"
#include "interruption.hpp"

// Runs the matrix, the properties or one case, and reports the results.

namespace truestep::gate {

using nlohmann::ordered_json;
using report::Status;

int Check::run() {
    if (settings_.list == "true") {
        print_list();
        return all_passed;
    }
    trust_itself();
    if (settings_.converge)
        return train();
    if (settings_.list == "edges")
        return print_edges();
    for (const auto& implementation : chosen_)
        results_.add_runs_on(implementation->name(), implementation->runs_on());
    if (settings_.one_case) {
        run_one_case();
    } else {
        if (settings_.properties.empty())
            run_matrix();
        if (!settings_.matrix_only)
            run_properties();
        // Ranks that are processes already are searched together, and interruptions end them at once: if
        // each polled for itself, they would part ways.
        const bool forks = group_->name() == "in_process";
        if (forks)
            tell_what_was_done();
        run_pieces(pieces_, {.at_a_time = forks ? settings_.jobs : 0, .most_seconds = case_seconds()});
        work_has_ended();
    }
    return finish();
}

/// Without this a gate that detects nothing would pass everything.
void Check::trust_itself() const {
    std::string unseen;
    for (const std::string& what : system_.unseen())
        unseen += (unseen.empty() ? "" : ", ") + what;
    if (!unseen.empty())
        throw std::logic_error("this gate misses a wrong answer that it is shown (" + unseen +
                               "), so its verdicts mean nothing");
}

/// The length of the chain of like() among the chosen implementations: for a like b like c it is 2.
int Check::likenesses(const Implementation& implementation) const {
    const auto other = std::ranges::find_if(
        chosen_, [&](const auto& chosen) { return chosen->name() == implementation.like(); });
    return other == chosen_.end() ? 0 : 1 + likenesses(**other);
}

SearchOptions Check::options_for(const Implementation& implementation, const Property& property, int usual,
                                 int thorough) {
    SearchOptions options;
    options.cases = settings_.cases > 0 ? settings_.cases : settings_.thorough ? thorough : usual;
    if (settings_.cases == 0 && !settings_.thorough)
        options.cases = std::max(1, options.cases >> likenesses(implementation));
    options.seed = settings_.seed;
    options.overrides = pins_;
    options.workers_by_default = workers_by_default_;
    keep_to_what_it_takes(implementation, options);
    options.unsupported = unsupported(implementation);
    options.schedules = settings_.schedules;
    options.before = [this, &implementation, &property](const Line& line) {
        // A program may become unavailable during the run.
        if (const std::string why = implementation.unavailable(); !why.empty())
            throw Error("--program: " + why);
        return watch_.goes_on(command(implementation, property, line), line);
    };
    // A process knows of failures that were told before it began; after one it says nothing.
    options.failed = [this, &implementation, &property] {
        if (!results_.failures().empty() || !group_->speaks())
            return;
        Progress::clear();
        std::fprintf(stderr, "%s, %s: a case fails; looking for a smaller one\n",
                     implementation.name().c_str(), property.name.c_str());
    };
    return options;
}

void Check::search_later(const Implementation& implementation, const Property& property,
                         const SearchOptions& options, const std::string& with,
                         std::function<void(const SearchResult&)> told) {
    pace_.expect(implementation.name());
    pieces_.push_back({.work =
                           [this, &implementation, &property, options, with](const ProcessEnd& before) {
                               if (settings_.verbose && group_->speaks()) {
                                   Progress::clear();
                                   std::fprintf(stderr, "$ %s\n", with.c_str());
                               }
                               SearchResult result = search_again(
                                   system_, implementation, property, options, before, case_seconds(),
                                   settings_.save.empty() ? "" : source(implementation));
                               result.interrupted = result.ended && interruption() != 0;
                               return to_json(result, source(implementation));
                           },
                       .told =
                           [this, told = std::move(told), &implementation](const ordered_json& answer) {
                               const SearchResult result = search_result(answer);
                               cut_short_ = cut_short_ || (result.ended && !result.interrupted);
                               told(result);
                               pace_.took(implementation.name(), result.seconds);
                               show_progress();
                           },
                       .here = implementation.stays_here()});
}

void Check::tell_later(std::function<void()> told) {
    pieces_.push_back({.work = {}, .told = [told = std::move(told)](const ordered_json&) { told(); }});
}

void Check::show_progress() {
    const double work_left = pace_.left(watch_.seconds());
    const double left =
        watch_.limited() ? std::min(work_left, settings_.time_budget - watch_.seconds()) : work_left;
    if (group_->speaks())
        progress_.show(std::to_string(pace_.done()) + " of " + std::to_string(pace_.all()) + ", about " +
                       std::to_string(static_cast<int>(std::max(0.0, left))) + " s left");
}

double Check::case_seconds() const {
    return settings_.case_timeout > 0.0 ? settings_.case_timeout : 3.0 * settings_.timeout;
}

/// Where the traces of failing cases come from, as they say: for --save, and for the guess at what is
/// wrong. "": no traces are written.
std::string Check::source(const Implementation& implementation) const {
    return group_->speaks() ? "truestep check, " + implementation.name() : "";
}

/// Reports the counterexample's failure and stores its trace.
ordered_json Check::failure(const Implementation& implementation, const Property& property,
                            const SearchResult& result, const std::string& with) {
    if (!result.counterexample)
        return nullptr;
    const auto& found = *result.counterexample;
    std::string trace;
    if (!settings_.save.empty() && group_->speaks()) {
        std::filesystem::create_directories(settings_.save);
        const std::string name = implementation.name() + "_" + property.name + "_" +
                                 std::to_string(++failures_) + ".safetensors";
        if (found.finding->save(std::filesystem::path(settings_.save) / name, source(implementation)))
            trace = name;
    }
    ordered_json json = failure_json(found, trace);
    const bool beside_the_reference = property.name == system_.reference_property;
    json["cause"] = causes_.of(implementation.name(), property, beside_the_reference, json["first"]);
    json["command"] = command(implementation, property, found);
    // The guess is made once per cause and implementation, and not by ranks that are processes, which
    // cannot start others.
    std::string fits;
    if (causes_.count_of(implementation.name(), json["cause"]) == 1 && group_->name() == "in_process" &&
        interruption() == 0)
        for (const std::string& line : what_fits(system_, *found.finding, json["command"])) {
            json["fits"].push_back(line);
            fits += (fits.empty() ? "  what may be wrong:\n    " : "    ") + line + "\n";
        }
    if (causes_.count(json["cause"]) > 1) {
        // Another implementation may be wrong there in its own way, so its first case is reported, too.
        if (causes_.count_of(implementation.name(), json["cause"]) == 1)
            add_failure("$ " + command(implementation, property, found) + "\n" + fits);
        return json;
    }
    add_failure("$ " + with + "\n  " + implementation.name() + ", " + property.name + ": " + property.says +
                "\n" + failure_text(found) + fits + "  to repeat it:\n$ " +
                command(implementation, property, found) + "\n" +
                (trace.empty()
                     ? ""
                     : "  its trace: " + settings_.save + "/" + trace +
                           found.finding->lacks(std::filesystem::path(settings_.save) / trace) + "\n") +
                coloured(Status::failed) + "\n\n");
    return json;
}

/// With --brief nothing is printed before failures, so each is printed when it is found.
void Check::add_failure(const std::string& text) {
    results_.add_failure(text);
    if (!settings_.brief || !group_->speaks())
        return;
    Progress::clear();
    std::fputs(results_.new_failures().c_str(), stdout);
    std::fflush(stdout);
}

bool Check::has_matrix(const Implementation& implementation) const {
    return why_not(system_.property(system_.reference_property), implementation,
                   unsupported(implementation))
        .empty();
}

void Check::run_matrix() {
    for (const auto& implementation : chosen_)
        if (has_matrix(*implementation))
            for (const Overrides& overrides : system_.rows(*implementation, pins_))
                run_row(*implementation, overrides);
}

namespace {

ordered_json finite_or_text(double value) {
    return std::isfinite(value) ? ordered_json(value) : ordered_json("inf");
}

ordered_json setting_json(const std::string& text) {
    auto value = ordered_json::parse(text, nullptr, false);
    return value.is_number() ? value : ordered_json(text);
}

} // namespace

void Check::run_row(const Implementation& implementation, const Overrides& overrides) {
    const Property& property = system_.property(system_.reference_property);
    SearchOptions options = options_for(implementation, property, 4, 50);
    options.overrides = overrides;
    options.workers_by_default = false;
    options.also = system_.standing(overrides);
    const std::string with = command(implementation) + " --matrix" + narrowed(options);
    const auto add = [this, &implementation, &property, overrides, with](const SearchResult& result,
                                                                         const Verdict& verdict) {
        ordered_json row{{"implementation", implementation.name()},
                         {"communicator", implementation.communicator()}};
        for (const std::string& setting : system_.settings)
            row[setting] = setting_json(overrides.at(system_.option_of(setting)).front());
        row.update({{"level", level_of(implementation)},
                    {"cases", result.cases},
                    {"compared", result.counts.compared},
                    {"wrong", result.counts.wrong},
                    {"max_ulp", finite_or_text(result.counts.greatest_ulps)},
                    {"share_of_limit", finite_or_text(result.counts.share_of_limit)},
                    {"seconds", result.seconds},
                    {"status", name(verdict.status)},
                    {"reason", verdict.reason},
                    {"command", with},
                    {"failure", failure(implementation, property, result, with)}});
        results_.add_row(std::move(row));
    };
    if (const std::string why = implementation.unavailable(); !why.empty())
        return tell_later([=] { add({}, {Status::skipped, why}); });
    search_later(implementation, property, options, with,
                 [this, &property, options, add](const SearchResult& result) {
                     Verdict verdict = judge(system_, property, result, options);
                     if (verdict.status == Status::passed && result.counts.compared == 0)
                         verdict = {Status::untested, "no value was compared"};
                     add(result, verdict);
                 });
}

std::vector<const Property*> Check::chosen_properties() const {
    std::vector<const Property*> chosen;
    for (const std::string& name : settings_.properties)
        chosen.push_back(&system_.property(name));
    if (chosen.empty())
        for (const Property& property : system_.properties)
            chosen.push_back(&property);
    return chosen;
}

void Check::run_properties() {
    for (const auto& implementation : chosen_)
        for (const Property* property : chosen_properties()) {
            // What can never be asked of it is reported only on request; what was left out always is.
            const std::string says_nothing = property->skipped(*implementation);
            const std::string left = why_not(*property, *implementation, unsupported(*implementation));
            const std::string here = implementation->unavailable();
            if (left.empty() && here.empty())
                run_property(*implementation, *property);
            else if (says_nothing.empty() || !settings_.properties.empty())
                tell_later([this, &implementation, property, why = left.empty() ? here : left] {
                    add_property(*implementation, *property, {}, {Status::skipped, why}, "", nullptr);
                });
        }
}

void Check::run_property(const Implementation& implementation, const Property& property) {
    SearchOptions options = options_for(implementation, property, 100, 2000);
    options.also = property.also(implementation, options.overrides);
    const std::string with = command(implementation) + " --property " + property.name + narrowed(options);
    search_later(implementation, property, options, with,
                 [this, &implementation, &property, options, with](const SearchResult& result) {
                     add_property(implementation, property, result,
                                  judge(system_, property, result, options), with,
                                  failure(implementation, property, result, with));
                 });
}

void Check::add_property(const Implementation& implementation, const Property& property,
                         const SearchResult& result, const Verdict& verdict, const std::string& with,
                         const ordered_json& failed) {
    results_.add_property(
        {{"implementation", implementation.name()},
         {"communicator", implementation.communicator()},
         {"number", property.number},
         {"property", property.name},
         {"says", property.says},
         {"cases", result.cases},
         {"drawn", result.drawn},
         {"demanded", property.at_least.empty() ? ordered_json::object() : ordered_json(property.at_least)},
         {"classes", result.kinds.empty() ? ordered_json::object() : ordered_json(result.kinds)},
         {"seconds", result.seconds},
         {"status", name(verdict.status)},
         {"reason", verdict.reason},
         {"command", with},
         {"failure", failed}});
}

void Check::run_one_case() {
    const Line& line = *one_case_;
    const Property& property = *chosen_properties().front();
    const Implementation& implementation = *chosen_.front();
    const std::string with = command(implementation, property, line);
    static_cast<void>(watch_.goes_on(with, line));
    SearchResult result;
    result.cases = 1;
    result.counterexample =
        try_case(implementation, property, line, {.schedules = settings_.schedules}, result);
    result.seconds = watch_.seconds();
    add_property(implementation, property, result, judge(system_, property, result, {}), with,
                 failure(implementation, property, result, with));
}

/// Draws all cases of this run, and counts those at the edges of registered constants.
int Check::print_edges() {
    EdgeCounts counts;
    for (const auto& implementation : chosen_)
        for (const Property* property : chosen_properties())
            if (why_not(*property, *implementation, unsupported(*implementation)).empty() &&
                implementation->unavailable().empty()) {
                SearchOptions options = options_for(*implementation, *property, 100, 2000);
                options.also = property->also(*implementation, options.overrides);
                options.judge = [&](const Implementation&, const Property&, const Line& line) {
                    std::map<std::string, std::string> settings;
                    for (const std::string& key : system_.set_at_edges)
                        settings[key] = system_.value_at_edges(line, key);
                    counts.add(system_.extents(line), settings);
                    return CaseJudgement();
                };
                static_cast<void>(search(system_, *implementation, *property, options));
            }
    std::fputs(counts.table().c_str(), stdout);
    return all_passed;
}

int Check::train() const {
    return system_.train({.candidates = chosen_,
                          .pairs = settings_.pairs,
                          .jobs = settings_.jobs,
                          .run_seconds = case_seconds(),
                          .json = settings_.json,
                          .report = settings_.report,
                          .arguments = arguments_});
}

int Check::finish() {
    Progress::clear();
    const int passed = results_.count(Status::passed);
    const int skipped = results_.count(Status::skipped);
    const int failed = results_.count(Status::failed) + results_.count(Status::mistrusted) +
                       results_.count(Status::untested);
    if (group_->speaks()) {
        results_.add_failure(causes_.more());
        const ordered_json document = results_.document(arguments_, settings_.seed, watch_.seconds());
        std::printf("%s%s%d passed, %d failed, %d skipped\n",
                    settings_.brief ? results_.new_failures().c_str() : results_.text().c_str(),
                    results_.failures().empty() ? "\n" : "", passed, failed, skipped);
        if (!settings_.json.empty())
            report::write_json(settings_.json, document);
        if (!settings_.report.empty()) {
            report::write_folder(settings_.report, {document});
            report::write_json(settings_.report + "/results.json", document);
            std::printf("report: %s/index.html\n", settings_.report.c_str());
        }
    }
    if (settings_.must_finish && cut_short_ && group_->speaks())
        std::puts("the time budget was used up, and --must-finish is given");
    return failed > 0 || (settings_.must_finish && cut_short_) ? difference
           : passed > 0                                        ? all_passed
                                                               : bad_input;
}

} // namespace truestep::gate
