// Tries the properties on each known bug until one catches it, and on the clean implementations.
#include "planted_search.hpp"

#include <algorithm>
#include <cstdio>
#include <memory>

#include <truestep/gate/isolated_search.hpp>
#include <truestep/gate/results.hpp>
#include <truestep/gate/terminal.hpp>
#include <truestep/problem/error.hpp>
#include <truestep/problem/text.hpp>
#include <truestep/report/folder.hpp>

#include "commands.hpp"
#include "planted_rows.hpp"

namespace truestep::tool {

namespace {

using gate::Implementation;
using gate::ProcessEnd;
using gate::Progress;
using gate::Property;
using gate::SearchOptions;
using gate::SearchResult;
using gate::shell_word;
using gate::Verdict;
using gate::Watch;
using nlohmann::ordered_json;
using report::Status;

class Planted {
  public:
    Planted(const PlantedRun& settings, const std::vector<std::string>& arguments)
        : settings_(settings), system_(gate::find_system(all_systems(), settings.system)),
          arguments_(arguments), program_(shell_word(arguments.front())),
          group_(gate::make_thread_group(std::chrono::duration_cast<std::chrono::milliseconds>(
              std::chrono::duration<double>(settings.timeout)))),
          watch_(0.0, [](bool here) { return here; }), progress_("truestep planted"), results_(system_) {
        if (settings.cases < 1 || settings.clean_cases < 0 || settings.jobs < 0)
            throw Error("--cases must be at least 1, --clean-cases and --jobs 0");
        if (!(settings.timeout >= 0.001 && settings.timeout <= 31'536'000.0))
            throw Error("--timeout is " + shortest(settings.timeout) +
                        "; it must be 0.001 seconds to a year");
        const auto named = [](const std::vector<std::string>& names, const std::string& name) {
            return std::ranges::find(names, name) != names.end();
        };
        for (const auto* names : {&settings.properties, &settings.without})
            for (const std::string& name : *names)
                static_cast<void>(system_.property(name));
        for (const Property& property : system_.properties)
            if (!named(settings.without, property.name) &&
                (settings.properties.empty() || named(settings.properties, property.name)))
                properties_.push_back(&property);
        if (properties_.empty())
            throw Error("--property and --without leave no property");
        static_cast<void>(scratch_folder(*group_));
    }

    int run() {
        std::vector<int> numbers = settings_.numbers;
        if (numbers.empty())
            for (const gate::KnownBug& bug : system_.known_bugs)
                numbers.push_back(bug.number);
        for (const int number : numbers) {
            const auto implementation = system_.planted(number, group_);
            if (number == 0)
                throw Error(
                    "--bug 0 is the clean implementation, which is always tried; the bugs are numbered "
                    "from 1");
            if (implementation->unavailable().empty())
                catch_bug_later(number, implementation);
            else
                skip_bug(number, *implementation);
        }
        accuse_the_clean();
        run_pieces(pieces_, {.at_a_time = settings_.jobs, .most_seconds = case_seconds()});
        return finish();
    }

  private:
    void skip_bug(int number, const Implementation& implementation) {
        results_.add_property(skipped_row(
            number, system_.known_bugs[static_cast<std::size_t>(number - 1)].name, implementation,
            program_ + " planted" + of_system() + " --bug " + std::to_string(number)));
        ++skipped_;
    }

    void catch_bug_later(int number, const std::shared_ptr<const Implementation>& implementation) {
        pieces_.push_back(
            {.work = [this, number, implementation](
                         const ProcessEnd& before) { return caught(number, *implementation, before); },
             .told =
                 [this, number](const ordered_json& row) {
                     progress_.show("bug " + std::to_string(number));
                     const bool caught = row["caught"];
                     caught_ += caught ? 1 : 0;
                     small_ += caught && row["elements"].get<std::int64_t>() <= 8 ? 1 : 0;
                     ++made_;
                     results_.add_planted(row);
                 },
             .here = implementation->stays_here()});
    }

    struct Pass {
        int drawn;
        bool standing; ///< also whatever a default check tries
    };

    /// Which property catches it, as a row of the results.
    [[nodiscard]] ordered_json caught(int number, const Implementation& implementation,
                                      const ProcessEnd& before) {
        ordered_json row =
            uncaught_row(number, system_.known_bugs[static_cast<std::size_t>(number - 1)].name);
        // Most bugs show in the first few cases of some property. So all properties try few cases
        // before one tries many, and in between only the standing ones, which reveal bugs that need
        // large cases. A table of which property catches what uses many only.
        const std::vector<Pass> few{{.drawn = settings_.cases / 10, .standing = false},
                                    {.drawn = 0, .standing = true},
                                    {.drawn = settings_.cases / 3, .standing = false}};
        for (std::size_t i = 0; i < few.size() && !settings_.all && !row["caught"]; ++i)
            look_for(row, number, implementation, few[i], before);
        if (!row["caught"])
            look_for(row, number, implementation, {.drawn = settings_.cases, .standing = true}, before);
        return row;
    }

    /// Tries the properties in their order on these cases until one catches the bug, or all of
    /// them.
    void look_for(ordered_json& row, int number, const Implementation& implementation, const Pass& pass,
                  const ProcessEnd& before) {
        for (const Property* property : properties_) {
            const bool first = !row["caught"];
            if (!first && !settings_.all)
                break;
            // Device implementations may leave some properties out.
            if (!gate::why_not(*property, implementation, implementation.unsupported()).empty())
                continue;
            SearchOptions options;
            options.unsupported = implementation.unsupported();
            options.cases = pass.drawn;
            options.seed = settings_.seed;
            options.most_evaluations = first ? 2000 : 0;
            if (pass.standing)
                options.also = property->also(implementation, {});
            if (options.cases == 0 && options.also.empty())
                continue;
            options.before = [this, number, property](const gate::Line& line) {
                return watch_.goes_on(command(number, *property, line), line);
            };
            const SearchResult result =
                search_again(system_, implementation, *property, options, before, case_seconds(), "");
            if (first) {
                row["seconds"] = row["seconds"].get<double>() + result.seconds;
                row["cases"] = row["cases"].get<int>() + result.cases;
            }
            if (!result.counterexample)
                continue;
            if (!first) {
                row["also"].push_back(property->name);
                continue;
            }
            const auto& found = *result.counterexample;
            row["caught"] = true;
            row["property"] = property->name;
            row["elements"] = found.finding->size().elements;
            row["ranks"] = found.finding->size().ranks;
            row["steps"] = found.finding->size().steps;
            row["evaluations"] = found.evaluations;
            row["command"] = command(number, *property, found.line);
            row["failure"] = gate::failure_json(found, "");
        }
    }

    [[nodiscard]] double case_seconds() const { return 3.0 * settings_.timeout; }

    [[nodiscard]] std::string command(int number, const Property& property, const gate::Line& line) const {
        return program_ + " check" + of_system() + " --planted " + std::to_string(number) + " --property " +
               property.name + " --case " + shell_word(line);
    }

    /// Tests the clean implementations over as many cases each; a caught one is a false accusation.
    void accuse_the_clean() {
        if (settings_.clean_cases == 0)
            return;
        gate::Implementations clean{system_.planted(0, group_)};
        for (const auto& implementation : system_.implementations(group_))
            if (std::ranges::find(system_.clean, implementation->name()) != system_.clean.end())
                clean.push_back(implementation);
        for (const auto& implementation : clean)
            for (const Property* property : properties_)
                accuse_later(implementation, *property);
    }

    void accuse_later(const std::shared_ptr<const Implementation>& implementation,
                      const Property& property) {
        SearchOptions options;
        options.unsupported = implementation->unsupported();
        const int count = static_cast<int>(properties_.size());
        options.cases = (settings_.clean_cases + count - 1) / count;
        options.seed = settings_.seed;
        options.also = property.also(*implementation, {});
        const std::string with = program_ + " check" + of_system() + " --implementation " +
                                 implementation->name() + " --property " + property.name;
        options.before = [this, with](const gate::Line& line) {
            return watch_.goes_on(with + " --case " + shell_word(line), line);
        };
        pieces_.push_back({.work =
                               [this, implementation, &property, options](const ProcessEnd& before) {
                                   return to_json(search_again(system_, *implementation, property, options,
                                                               before, case_seconds(), ""),
                                                  "");
                               },
                           .told =
                               [this, implementation, &property, options, with](const ordered_json& json) {
                                   progress_.show(implementation->name() + ", " + property.name);
                                   accuse(*implementation, property, options, with,
                                          gate::search_result(json));
                               },
                           .here = implementation->stays_here()});
    }

    void accuse(const Implementation& implementation, const Property& property,
                const SearchOptions& options, const std::string& with, const SearchResult& result) {
        const Verdict verdict = judge(system_, property, result, options);
        clean_cases_ += result.cases;
        accused_ += result.counterexample ? 1 : 0;
        mistrusted_ += verdict.status == Status::mistrusted ? 1 : 0;
        if (result.counterexample)
            results_.add_failure("FALSE ACCUSATION of " + implementation.name() + " by " + property.name +
                                 ":\n" + gate::failure_text(*result.counterexample) + "$ " + with +
                                 " --case " + shell_word(result.counterexample->line) + "\n\n");
        results_.add_property(clean_row(implementation, property, result, verdict,
                                        with + " --cases " + std::to_string(options.cases) + " --seed " +
                                            std::to_string(settings_.seed)));
    }

    int finish() {
        Progress::clear();
        const ordered_json document = results_.document(arguments_, settings_.seed, watch_.seconds());
        std::fputs(results_.text().c_str(), stdout);
        if (!settings_.json.empty())
            report::write_json(settings_.json, document);
        if (!settings_.report.empty()) {
            report::write_folder(settings_.report, {document});
            report::write_json(settings_.report + "/results.json", document);
            std::printf("\nreport: %s/index.html\n", settings_.report.c_str());
        }
        if (settings_.clean_cases > 0)
            std::printf("\nclean implementations: %d cases, %d accused, %d properties saw too little\n",
                        clean_cases_, accused_, mistrusted_);
        std::printf("smallest cases of at most 8 parameters: %d\n", small_);
        std::printf("known bugs: %d made, %d caught%s\n", made_, caught_,
                    skipped_ == 0 ? "" : (", " + std::to_string(skipped_) + " skipped").c_str());
        return caught_ == made_ && accused_ == 0 && mistrusted_ == 0 ? all_passed : difference;
    }

    [[nodiscard]] std::string of_system() const {
        return system_.name == all_systems().front().name ? "" : " " + system_.name;
    }

    const PlantedRun& settings_;
    const gate::System& system_;
    const std::vector<std::string>& arguments_;
    std::string program_; ///< as the user started it
    std::shared_ptr<const gate::Group> group_;
    Watch watch_;
    Progress progress_;
    std::vector<const Property*> properties_;
    gate::Results results_;
    std::vector<gate::Piece> pieces_;
    int made_ = 0;
    int skipped_ = 0;
    int caught_ = 0;
    int small_ = 0;
    int clean_cases_ = 0;
    int accused_ = 0;
    int mistrusted_ = 0;
};

} // namespace

int search_for_planted(const PlantedRun& settings, const std::vector<std::string>& arguments) {
    return Planted(settings, arguments).run();
}

} // namespace truestep::tool
