/* SPDX-License-Identifier: MIT
 *
 * A task that is stopped in a catch block, or while an exception is on its way, says so; and one of a C++ class is
 * named by its table of virtual functions. */
#include <cstring>
#include <fcntl.h>
#include <memory>
#include <stdexcept>
#include <string>
#include <sys/mman.h>
#include <unistd.h>
#include <vector>

#include "test.h"
#include <stint/stint.hpp>

namespace
{

struct Shape {
    virtual ~Shape() = default;
    virtual int corners() const = 0;
};

} // namespace

namespace shapes
{

struct Triangle final : Shape {
    int corners() const override
    {
        return 3;
    }
    char rest[200] = {};
};

} // namespace shapes

namespace
{

std::string written(const stint_report *report, stint_report_kind kind)
{
    int file = memfd_create("report", MFD_CLOEXEC);
    assert_int_equal(stint_report_write(report, file, kind), 0);
    std::string text(static_cast<size_t>(lseek(file, 0, SEEK_END)), '\0');
    assert_int_equal(pread(file, &text[0], text.size(), 0), static_cast<ssize_t>(text.size()));
    close(file);
    return text;
}

std::string text_of(stint_fn *fn, stint_on_interrupt on_interrupt)
{
    stint_options options = STINT_OPTIONS_INIT;
    options.budget.memory = size_t{ 1 } << 20;
    options.grace = size_t{ 4 } << 20;
    options.report = STINT_REPORT_HEAP;
    options.on_interrupt = on_interrupt;
    stint_outcome outcome;
    stint_report *report;
    assert_int_equal(stint_run_reported(fn, nullptr, &options, &outcome, &report), 0);
    assert_int_equal(outcome.reason, STINT_REASON_MEMORY_LIMIT);
    assert_non_null(report);
    std::string text = written(report, STINT_REPORT_TEXT);
    stint_report_release(report);
    return text;
}

std::vector<std::unique_ptr<Shape>> *grow(size_t count)
{
    auto *all = new std::vector<std::unique_ptr<Shape>>;
    for (size_t i = 0; i < count; i++)
        all->push_back(std::make_unique<shapes::Triangle>());
    return all;
}

bool is_in(const std::string &text, const char *part)
{
    return text.find(part) != std::string::npos;
}

int catch_and_grow(void *, void **)
{
    try {
        throw 1;
    } catch (int) {
        static_cast<void>(grow(8000));
    }
    static_cast<void>(grow(8000));
    return 0;
}

int only_grow(void *, void **)
{
    static_cast<void>(grow(100000));
    return 0;
}

} // namespace

TEST(a_task_that_has_thrown_is_nowhere)
{
    stint_options options = STINT_OPTIONS_INIT;
    options.report = STINT_REPORT_HEAP;
    stint_outcome outcome;
    stint_report *report;
    auto function = [] { throw std::runtime_error("boom"); };
    stint::detail::record_of<decltype(function)> record(function);
    assert_int_equal(stint_run_reported(stint::detail::record_base::enter,
                                        static_cast<stint::detail::record_base *>(&record), &options, &outcome,
                                        &report),
                     0);
    assert_int_equal(outcome.reason, STINT_REASON_EXCEPTION);
    std::string text = written(report, STINT_REPORT_TEXT);
    assert_true(is_in(text, "\nwhere: it had thrown an exception\n"));
    assert_false(is_in(text, "#0"));
    stint_report_release(report);
}

TEST(a_task_stopped_in_a_catch_block_says_so)
{
    for (stint_on_interrupt how : { STINT_JUMP, STINT_UNWIND }) {
        std::string text = text_of(catch_and_grow, how);
        assert_true(is_in(text, "where it was stopped:\n"));
        assert_true(is_in(text, "    the end of a catch block, at "));
        assert_true(is_in(text, "where it was left:\n"));
        assert_true(is_in(text, "catch_and_grow"));
    }
}

TEST(objects_are_named_by_their_class)
{
    std::string text = text_of(only_grow, STINT_UNWIND);
    assert_true(is_in(text, "% vtable for shapes::Triangle"));
    assert_false(is_in(text, "had to wait"));
}

TEST_MAIN()
